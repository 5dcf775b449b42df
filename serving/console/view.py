"""What the pages show: values for the templates, from a case and the model's answer to it."""

import dataclasses
import itertools
import json
from typing import Any, NamedTuple

from schemas.evidence import Evidence
from schemas.triage import DECISION_LABELS
from serving.console.case import Case
from serving.console.served_model import Answer, ModelVersion
from serving.messages import DEFERRALS, action_label, speaks
from serving.wires.message_json import STATUSES, message_figures
from triage_client import NextQuestion, QuestionReason, TriageAction, TriageResponse

_MOST_TURNING = 5


class DecisionRow(NamedTuple):
    """A decision in the table of values; numbers are in [0, 1]."""

    label: str
    value: float
    """By which the bar is drawn: the probability of being appropriate, the Q-value where there is none."""
    cells: tuple[str, ...]


class Finding(NamedTuple):
    """A finding, with its effect on the decision."""

    name: str
    status: str
    speaks: str
    """Whether it speaks for the decision or against it, or is unclear; "" where that is not known."""


class Turn(NamedTuple):
    """An answer that would change the decision."""

    decision: str
    name: str
    status: str
    likely: float


@dataclasses.dataclass(frozen=True)
class Recommendation:
    """What a model decides, and why."""

    decision: str
    rule: str
    """The reason of the safety rule that overrides the model, "" if none does."""
    columns: tuple[str, ...]
    rows: list[DecisionRow]
    rules: list[dict[str, str]]
    novelty: float | None
    is_novel: bool
    deferred: str
    """Why the case is handed over to a person, "" if it is not."""
    turning: list[Turn]
    version: str


@dataclasses.dataclass(frozen=True)
class CasePage:
    """The page of a case."""

    text: str
    """The case, for the hidden field."""
    findings: list[Finding]
    number: int
    """Of the question."""
    question: Evidence | None
    choices: list[Evidence]
    """The answers of a single-choice question; [] for other questions."""
    together: list[tuple[Evidence, str]]
    """The answers of a question about several red flags, any number of which may be present, each with the reason of
    the safety rule that it would fire, "" where there is none; [] for other questions."""
    question_why: str
    question_unit: str | None
    """Unit of the number that would answer it, None where none does."""
    recommendation: Recommendation | None
    so_far: bool
    """Whether the model would ask more."""
    status: str
    """Why the model asks more or stops."""
    json: str

    @property
    def step(self) -> str:
        """The title of the page, which a browser keeps: it names no finding."""
        if self.recommendation is None:
            return "New case"
        return f"Question {self.number}" if self.so_far else "Decision"


def case_page(case: Case, answer: Answer | None, model: ModelVersion) -> CasePage:
    """Returns what to show of a case; `answer` is None while nothing is known."""
    response = answer.response if answer else None
    asks = answer is not None and answer.asks
    question = model.evidence[answer.question] if answer and answer.question else None
    chosen = answer.chosen if answer and answer.chosen else NextQuestion()
    figures = {"case": case.request(), "answer": message_figures(response) if response else None}
    return CasePage(
        text=case.to_text(),
        findings=_findings(case, response, model),
        number=case.questions_asked + (question is None or case.counts(question.code, model.vocabulary)),
        question=question,
        choices=[model.evidence[code] for code in chosen.one_of],
        together=[
            (model.evidence[code], why)
            for code, why in itertools.zip_longest(chosen.any_of, chosen.rationales, fillvalue="")
        ],
        question_why=_why_asked(answer) if answer and question else "",
        question_unit=_unit(question, model) if question and not chosen.any_of else None,
        recommendation=recommendation(response, model) if response else None,
        so_far=asks,
        status=_status(case, answer) if answer else "",
        json=json.dumps(figures, ensure_ascii=False, indent=2),
    )


def recommendation(response: TriageResponse, model: ModelVersion) -> Recommendation:
    """Returns the decision of a response with its reasons."""
    decision = action_label(response.best_triage)
    return Recommendation(
        decision=decision,
        rule=_deciding_rule(response),
        columns=("appropriate", "safe") if response.probabilities else ("Q-value",),
        rows=_rows(response),
        rules=[_rule(rule) for rule in response.fired_rules],
        novelty=response.novelty if response.HasField("novelty") else None,
        is_novel=response.is_novel,
        deferred=_deferred(response, model),
        turning=[
            Turn(
                action_label(turn.best_triage),
                _name(turn.evidence.code, model),
                STATUSES[turn.evidence.status],
                turn.likely,
            )
            for turn in response.explanation.turning[:_MOST_TURNING]
        ],
        version=response.model_version,
    )


def _deferred(response: TriageResponse, model: ModelVersion) -> str:
    if not response.HasField("deferred"):
        return ""
    names = ", ".join(_name(code, model) for code in response.conflicting_codes)
    return f"{DEFERRALS[response.deferred]}{': ' if names else ''}{names}"


def _unit(question: Evidence, model: ModelVersion) -> str | None:
    bands = model.vocabulary.bands
    measure = bands.measure_of(question.code)
    if not measure:
        return None
    unit = bands.units[measure]
    return measure.replace("_", " ") + (f" ({unit})" if unit else "")


def _rows(response: TriageResponse) -> list[DecisionRow]:
    if response.probabilities:
        return [
            DecisionRow(action_label(each.decision), each.appropriate, (f"{each.appropriate:.0%}", f"{each.safe:.0%}"))
            for each in response.probabilities
        ]
    values = {action_label(each.action): each.value for each in response.q_values}
    return [DecisionRow(label, values[label], (f"{values[label]:.2f}",)) for label in DECISION_LABELS]


def _deciding_rule(response: TriageResponse) -> str:
    return next((rule.reason for rule in reversed(response.fired_rules) if rule.from_action != rule.to_action), "")


def _rule(rule: Any) -> dict[str, str]:
    before, after = action_label(rule.from_action), action_label(rule.to_action)
    changed = "no change" if before == after else f"{before} → {after}"
    return {"id": rule.rule_id, "reason": rule.reason, "change": changed}


def _findings(case: Case, response: TriageResponse | None, model: ModelVersion) -> list[Finding]:
    effects = {effect.evidence.code: effect for effect in response.explanation.effects} if response else {}
    if len(effects) == 1:
        effects = {}  # without it nothing is known
    return [
        Finding(
            _name(each.code, model),
            each.status,
            _speaks(effects[each.code], response) if response and each.code in effects else "",
        )
        for each in case.statements
    ]


def _speaks(effect: Any, response: TriageResponse) -> str:
    decision, side = action_label(response.best_triage), speaks(effect, response.best_triage)
    if not side:
        return "hardly matters"
    said = side if side == "unclear" else f"speaks {side} {decision}"
    if effect.best_triage_without != response.best_triage:
        return f"{said}: without it {action_label(effect.best_triage_without)}"
    if side == "unclear":
        return said
    points = round(100 * effect.support)
    number = f"{points:+}".replace("-", "\N{MINUS SIGN}")
    return f"{said}: {number} point{'' if abs(points) == 1 else 's'}"


def _name(code: str, model: ModelVersion) -> str:
    return model.evidence[code].name if code in model.evidence else code


def _why_asked(answer: Answer) -> str:
    if answer.chosen is None:
        return "Next in the vocabulary: this model cannot choose questions."
    likely = f"{answer.chosen.likely:.0%} say yes{' to the first' if answer.chosen.any_of else ''}"
    if answer.chosen.rationale and not answer.chosen.any_of:  # of which each has its own
        return f"{answer.chosen.rationale} ({likely})"
    if answer.chosen.reason == QuestionReason.QUESTION_REASON_RED_FLAG:
        return f"May be a red flag; {likely}."
    return f"Chosen by the model; {likely}."


def _status(case: Case, answer: Answer) -> str:
    response = answer.response
    asks = response.action == TriageAction.TRIAGE_ACTION_ASK
    if _deciding_rule(response) and not answer.asks:
        return "A safety rule decides, regardless of the model:"
    if answer.asks:
        if asks:
            return "The model is not yet certain and will ask more."
        if answer.chosen and answer.chosen.one_of:
            return "The model is certain enough, but age and sex come first."
        return "The model is certain enough, but must still ask about a red flag."
    if case.ended:
        return "You ended the questions."
    if response.forced:
        return "The question limit is reached."
    if response.HasField("deferred"):
        return "The case is handed over to a person."
    if asks:
        return "The model is not certain, but no remaining question is worth asking."
    return "The model is certain enough to decide."

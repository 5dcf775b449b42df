"""Converts `triage.v1` messages to the inputs of signatures, and their outputs to messages.

Messages are parsed here and not in the graph, where one malformed message would fail its whole batch. For a single
state, looking codes up in the graph takes longer than the network itself, so engines in this process do that here too:
no line of Python runs once per piece of evidence.
"""

import operator
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from schemas import features, safety_rules
from schemas.answer import ANSWER, Kind
from schemas.evidence import StateEncoder, Vocabulary
from schemas.model_directory import ModelInfo
from schemas.safety_rules import SafetyRule
from schemas.triage import NO_QUESTIONS_LEFT, TRIAGE_DECISIONS, WIRE_NUMBERS, Action, is_forced
from triage.v1 import triage_pb2

_CODE, _STATUS = operator.attrgetter("code"), operator.attrgetter("status")


class Wish(NamedTuple):
    """Which questions an answer is to suggest."""

    questions: int = 0  # at most; `ModelInfo.questions` says whether the model can choose any
    not_to_ask: Sequence[str] = ()  # codes that no question is about; those that the model does not know are ignored
    can_measure: bool = False  # whether questions may be about what takes an instrument


NO_WISH = Wish()


def _set(messages: Sequence[triage_pb2.TriageResponse], name: str, values: list[Any]) -> None:
    for message, value in zip(messages, values, strict=True):
        setattr(message, name, value)


def _set_actions(messages: Sequence[triage_pb2.TriageResponse], name: str, values: list[Any]) -> None:
    _set(messages, name, [WIRE_NUMBERS[action] for action in values])


def _extend_with_codes(messages: Sequence[triage_pb2.TriageResponse], name: str, values: list[Any]) -> None:
    for message, codes in zip(messages, values, strict=True):
        if any(codes):
            getattr(message, name).extend(code.decode() for code in codes if code)


_FILLING = {Kind.ACTION: _set_actions, Kind.CODES: _extend_with_codes}


class Responses:
    """Makes the responses of one version."""

    def __init__(self, info: ModelInfo):
        self._rules = info.rules
        self._fields = [(_FILLING.get(tensor.kind, _set), tensor.name) for tensor in ANSWER if tensor.is_field]
        self._template = triage_pb2.TriageResponse(
            model_version=info.model_version,
            vocabulary_fingerprint=info.vocabulary_fingerprint,
            q_values=[triage_pb2.QValue(action=action) for action in WIRE_NUMBERS.values()],
        )
        if info.probabilities:
            decisions = [WIRE_NUMBERS[decision] for decision in TRIAGE_DECISIONS]
            self._template.probabilities.extend(triage_pb2.DecisionProbability(decision=each) for each in decisions)

    def of(self, outputs: Mapping[str, np.ndarray]) -> list[triage_pb2.TriageResponse]:
        """Returns the response of each row of the model's outputs.

        `q_values` are float32 [B, A], probabilities [B, 4], codes bytes [B, U], `rules_fired` bool [B, R], and the
        others [B].
        """
        messages = [self._with_q_values(row) for row in outputs[features.Q_VALUES].tolist()]
        if self._template.probabilities:
            for message, appropriate, safe in zip(
                messages, outputs[features.P_APPROPRIATE].tolist(), outputs[features.P_SAFE].tolist(), strict=True
            ):
                for place, both in enumerate(message.probabilities):
                    both.appropriate, both.safe = appropriate[place], safe[place]
        for fill, name in self._fields:
            if name in outputs:
                fill(messages, name, outputs[name].tolist())
        if self._rules:
            self._add_rules(messages, outputs)
        return messages

    def _with_q_values(self, values: Sequence[float]) -> triage_pb2.TriageResponse:
        message = triage_pb2.TriageResponse()
        message.CopyFrom(self._template)
        for q_value, value in zip(message.q_values, values, strict=True):
            q_value.value = value
        return message

    def _add_rules(self, messages: Sequence[triage_pb2.TriageResponse], outputs: Mapping[str, np.ndarray]) -> None:
        """Adds the rules that fired, in order, with the action before and after each."""
        fired: dict[int, list[SafetyRule]] = {}
        for row, place in np.argwhere(outputs[features.RULES_FIRED]).tolist():
            fired.setdefault(row, []).append(self._rules[place])
        for row, rules in fired.items():
            before = (Action(int(outputs[name][row])) for name in (features.MODEL_ACTION, features.MODEL_BEST_TRIAGE))
            messages[row].fired_rules.extend(
                triage_pb2.FiredRule(
                    rule_id=step.rule.rule_id,
                    reason=step.rule.reason,
                    from_action=WIRE_NUMBERS[step.before],
                    to_action=WIRE_NUMBERS[step.after],
                )
                for step in safety_rules.steps(rules, *before)
            )


def to_decisions(outputs: Mapping[str, np.ndarray], info: ModelInfo) -> list[triage_pb2.TriageResponse]:
    """Returns the decisions in the outputs of any signature, `[]` if it decides nothing, as `questions`.

    `triage_responses` are bytes [B], the other outputs as in `Responses.of`.
    """
    if features.TRIAGE_RESPONSES in outputs:
        return list(map(triage_pb2.TriageResponse.FromString, outputs[features.TRIAGE_RESPONSES]))
    return Responses(info).of(outputs) if features.ACTION in outputs else []


def questions_asked(state: triage_pb2.EvidenceState) -> int:
    """Returns the number of questions for a signature: beyond any limit if the model must triage now."""
    own_limit = state.max_questions if state.max_questions > 0 else NO_QUESTIONS_LEFT
    forced = is_forced(state.questions_asked, own_limit, state.no_more_evidence)
    return NO_QUESTIONS_LEFT if forced else state.questions_asked


class Encoded(NamedTuple):
    """States, and the codes that are not part of them."""

    states: np.ndarray  # float32 [B, E] in {-1, 0, 1}
    questions_asked: np.ndarray  # int32 [B]
    unknown_codes: np.ndarray  # bytes [B, U], padded with b""
    conflicting_codes: np.ndarray  # bytes [B, C], padded with b""


class MessageEncoder:
    """Encodes messages with one vocabulary."""

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        self._encoder = StateEncoder(vocabulary)

    def encode(self, messages: Sequence[triage_pb2.EvidenceState]) -> Encoded:
        """Returns the states of `messages`, in the same order, by the rule of `schemas.evidence.StateEncoder`."""
        lists = [message.evidence for message in messages]
        evidence = list(chain.from_iterable(lists))
        statuses = np.fromiter(map(_STATUS, evidence), np.int32, len(evidence))
        encoded = self._encoder.encode(
            list(map(_CODE, evidence)),
            list(map(len, lists)),
            statuses == triage_pb2.EVIDENCE_STATUS_PRESENT,
            statuses == triage_pb2.EVIDENCE_STATUS_ABSENT,
        )
        asked = np.array(list(map(questions_asked, messages)), np.int32)
        return Encoded(encoded.states, asked, encoded.unknown_codes, encoded.conflicting_codes)

    def not_to_ask(self, wishes: Sequence[Wish]) -> np.ndarray:
        """Returns what questions are not to be about, bool `[B, E]`."""
        measuring = np.array([wish.can_measure for wish in wishes], bool)[:, np.newaxis]
        withheld: np.ndarray = self._vocabulary.takes_instrument & ~measuring
        for row, wish in zip(withheld, wishes, strict=True):
            row[[self._vocabulary.index(code) for code in wish.not_to_ask if code in self._vocabulary]] = True
        return withheld


def to_questions(
    outputs: Mapping[str, np.ndarray],
    inputs: Mapping[str, np.ndarray],
    vocabulary: Vocabulary,
    wishes: Sequence[Wish],
) -> list[list[triage_pb2.NextQuestion]]:
    """Returns the questions in each row of the outputs of the signature `questions`, as many as its wish is for.

    A version that was exported before red flags were asked together has no `QUESTION_TOGETHER`.
    """
    *of_each, together = features.QUESTION
    listed = zip(*(outputs[name].tolist() for name in of_each), strict=True)
    open_cells = (inputs[features.STATES] == 0) & ~inputs[features.NOT_TO_ASK]
    chosen = [
        [
            _question(vocabulary, here, *question)
            for question in islice(zip(*row, strict=True), wish.questions)
            if question[0] >= 0
        ]
        for here, row, wish in zip(open_cells, listed, wishes, strict=True)
    ]
    if together in outputs:
        for questions, cells in zip(chosen, outputs[together].tolist(), strict=True):
            if questions:
                questions[0].any_of.extend(vocabulary[cell].code for cell in cells if cell >= 0)
    return chosen


def _question(
    vocabulary: Vocabulary,
    open_cells: np.ndarray,
    cell: int,
    gain: float,
    likely: float,
    red_flag: bool,
    worth_asking: bool,
) -> triage_pb2.NextQuestion:
    reason = triage_pb2.QUESTION_REASON_RED_FLAG if red_flag else triage_pb2.QUESTION_REASON_INFORMATION
    entry = vocabulary[cell]
    # As in the opening of an interview, see `trainer.graph.questions`.
    group = list(vocabulary.openings.get(entry.exclusive, ()))
    one_of = [vocabulary[member].code for member in group] if group and open_cells[group].all() else []
    return triage_pb2.NextQuestion(
        code=entry.code,
        question=entry.question,
        expected_gain=gain,
        reason=reason,
        likely=likely,
        worth_asking=worth_asking,
        one_of=one_of,
    )

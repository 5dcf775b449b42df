"""Promises about safety, and promises.jsonl of a job directory: every one that was asked for, and the answer.

The patients set apart can be asked often only if that is counted. All answers of a job directory are true at once but
for the probability that they have `spent` together. A question spends all that its confidence permits: another one
needs less confidence, or follows from an earlier answer, which costs nothing.
"""

import dataclasses
import hashlib
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.errors import InputError
from schemas.promise import NOT_COVERED, percent, statements
from trainer.data.state import Vignettes
from trainer.graph import questions
from trainer.graph.decide import OperatingPoint
from trainer.graph.operating_point import candidates, handing_over, worth
from trainer.interviews.play import Leader, Leaving
from trainer.training import risk_control, set_apart
from trainer.training.agent_options import PromiseOptions
from trainer.training.job import JobDirectory, TrainedNetwork
from trainer.training.risk_control import ErrorCounts
from triage_runtime import promise
from triage_runtime.promise import Count

FILE = "promises.jsonl"
NEWER_ERROR = 0.05
"""Probability with which a promise that holds is called broken by newer data."""
_LEAST_ERROR = 1e-6
_HANDED_OVER = "handed_over"  # the risk, which permits to hand over


@dataclasses.dataclass(frozen=True)
class PromiseRequest:
    """A question about one agent."""

    levels: dict[str, float]
    confidence: float
    question_limit: int
    step: int  # of the agent's checkpoint
    rules: str  # fingerprint of its safety rules, "" without rules
    signs: str  # fingerprint of the danger signs that it asks about first, and of the order of other questions
    given: OperatingPoint | None  # the point that must keep the promise; None if it may be chosen

    def about_the_same(self, other: "PromiseRequest") -> bool:
        """Returns whether an answer to `other` says something here."""
        changed = dataclasses.replace(other, levels=self.levels, confidence=self.confidence, given=self.given)
        return changed == self and self.confidence <= other.confidence


@dataclasses.dataclass(frozen=True)
class Promise:
    """An answer. Its fields are those of `promise` in the manifest."""

    asked: PromiseRequest
    kept: bool
    levels: dict[str, float]  # what is promised; if nothing is, what the risks are at most, all at once
    operating_point: OperatingPoint
    found: dict[str, dict[str, Count]]  # errors in each setting; those of `under` and `over` whether asked or not
    whole_patients: bool
    spent: float

    def described(self) -> dict[str, Any]:
        """Returns it for JSON."""
        return dataclasses.asdict(self) | {"found": _described(self.found)}


def make(trained: TrainedNetwork, job_dir: pathlib.Path, given: PromiseOptions, point_given: bool) -> Promise:
    """Returns the answer to `--promise`, and writes it to the job directory.

    With `point_given`, the operating point of the agent must keep the promise; otherwise it may be chosen.

    Raises:
        InputError: no vignettes are set apart, the agent leads no interviews, it has answered too often, or the answer
            cannot be written.
    """
    apart = set_apart.read(job_dir)
    if apart is None:
        raise InputError(f"--promise: {job_dir} has no vignettes set apart: train with --set-apart 0.1")
    leader = _leader(trained, job_dir)
    asked = PromiseRequest(
        dict(given.promise), given.confidence, leader.question_limit, trained.training["steps"],
        trained.rules.fingerprint, hashlib.sha256(f"{questions.ORDER} {trained.signs.to_toml()}".encode()).hexdigest(),
        trained.operating_point if point_given else None,
    )  # fmt: skip
    job = JobDirectory(job_dir)
    with job.locked():
        earlier = answers(job_dir)
        answer = _implied(asked, earlier)
        if answer is None:
            left = 1 - asked.confidence - sum(each.spent for each in earlier)
            if left < _LEAST_ERROR:
                raise InputError(_exhausted(asked, earlier))
            answer = _tested(asked, trained, leader, apart, left)
        if answer not in earlier:
            with job.writing(), (job_dir / FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(answer.described(), allow_nan=False) + "\n")
    return answer


def promising(trained: TrainedNetwork, answer: Promise) -> TrainedNetwork:
    """Returns an agent that keeps a promise: at its operating point."""
    return dataclasses.replace(
        trained,
        operating_point=answer.operating_point,
        point_chosen="promise",
        promise=answer.described() | {"statements": statements(answer.levels), "not_covered": list(NOT_COVERED)},
        metrics={},
    )


def on_newer(trained: TrainedNetwork, made: Mapping[str, Any], vignettes: Vignettes, whole: bool) -> dict[str, Any]:
    """Returns the figures of a promise on other patients.

    The agent is at the operating point of the promise `made`, see `Promise.described`. `whole` vignettes list
    everything that a patient has.

    Returns:
        `holds`, unless these patients show that it does not; `broken`, the risks above their levels by setting;
        `confidence` of that; `found`, the errors.
    """
    counted = _found(Leaving(_leader(trained), vignettes, whole), trained.operating_point, vignettes)
    error = NEWER_ERROR / len(counted)
    broken = {
        setting: names
        for setting, counts in counted.items()
        if (names := promise.broken(made["levels"], counts, error))
    }
    return {
        "holds": not broken,
        "broken": broken,
        "confidence": 1 - NEWER_ERROR,
        "found": _described(counted),
    }


def _described(found: ErrorCounts) -> dict[str, dict[str, Any]]:
    return {setting: {name: count._asdict() for name, count in counts.items()} for setting, counts in found.items()}


def _leader(trained: TrainedNetwork, job_dir: pathlib.Path = pathlib.Path()) -> Leader:
    if trained.questions is None or not trained.has_probabilities:
        raise InputError(
            f"--promise: the agent of {job_dir} cannot interview: train with the preset default on 100 vignettes "
            "or more"
        )
    return Leader(
        trained.model, trained.vocabulary, trained.questions, trained.rules, trained.signs, trained.max_questions
    )


def _found(leaving: Leaving, point: OperatingPoint, vignettes: Vignettes) -> ErrorCounts:
    return {
        setting: promise.count(decisions, vignettes.decision_counts)
        for setting, decisions in leaving.decisions(point).items()
    }


def _tested(
    asked: PromiseRequest, trained: TrainedNetwork, leader: Leader, apart: set_apart.SetApart, error: float
) -> Promise:
    held_out = trained.held_out
    if held_out is None:
        raise InputError("--promise applies to the last checkpoint of a finished run: leave out --step")
    points = [asked.given] if asked.given is not None else candidates(trained.operating_point)
    if _HANDED_OVER in asked.levels:
        points = [*points, *handing_over(points)]
    leaving = Leaving(leader, apart.vignettes, apart.whole)
    result = risk_control.control(
        risk_control.in_order(points, held_out, asked.levels),
        lambda point: _found(leaving, point, apart.vignettes),
        asked.levels,
        error,
    )
    price = trained.target.price
    best = max(range(len(result.kept)), key=lambda place: worth(held_out, result.kept[place], price), default=0)
    return Promise(
        asked,
        bool(result.kept),
        asked.levels if result.kept else result.bounds,
        result.kept[best] if result.kept else result.likeliest,
        {setting: dict(counts) for setting, counts in result.found[best].items()},
        apart.whole,
        error,
    )


def _implied(asked: PromiseRequest, before: Sequence[Promise]) -> Promise | None:
    """Returns the answer that earlier ones hold already; None if they say nothing."""
    for earlier in before:
        if earlier.asked == asked:
            return earlier
    for earlier in before:
        known, hands_over = earlier.levels, earlier.operating_point.hand_over_from is not None
        if not hands_over:
            known = known | {_HANDED_OVER: 0.0}
        elif _HANDED_OVER not in asked.levels:
            continue
        point = dataclasses.replace(earlier.operating_point, hand_over_from=None)
        fits = asked.given in (None, point) and asked.about_the_same(earlier.asked)
        if fits and all(known.get(name, 1.0) <= level for name, level in asked.levels.items()):
            return dataclasses.replace(earlier, asked=asked, kept=True, levels=asked.levels, spent=0.0)
    return None


def _exhausted(asked: PromiseRequest, before: Sequence[Promise]) -> str:
    known = [text(earlier) for earlier in before if asked.about_the_same(earlier.asked)]
    return (
        "--promise: the vignettes set apart have answered before, and can answer no more questions at a confidence of "
        f"{asked.confidence:g}: ask for what is known ({'; '.join(known) or 'nothing at this confidence'}), for less "
        "confidence, or train with another --seed, which sets others apart"
    )


def text(answer: Promise) -> str:
    """Returns an answer in one line."""
    patients = next(iter(answer.found.values()))
    asked = ",".join(f"{name}={level:.10g}" for name, level in answer.asked.levels.items())
    numbers = ", ".join(f"{patients[name].patients:,} for {name}" for name in answer.levels)
    apart = f"{asked} with the patients set apart ({numbers})"
    if answer.kept:
        return f"promised with {percent(answer.asked.confidence)} confidence: {apart}"
    return f"no promise of {apart}; what can still be stated is {rounded(answer)}"


def in_words(answer: Promise) -> str:
    """Returns an answer in sentences."""
    confidence = f"with {percent(answer.asked.confidence)} confidence"
    if answer.kept:
        return " ".join([f"Promised {confidence}:", *statements(answer.levels)])
    stated = statements(_rounded(answer)) or ["Nothing."]
    return " ".join(["Refused:", *statements(answer.asked.levels), f"True {confidence}:", *stated])


def rounded(answer: Promise) -> str:
    """Returns the levels of an answer as `--promise` takes them, rounded up, so that it keeps them."""
    return ",".join(f"{name}={level:g}" for name, level in _rounded(answer).items()) or "none"


def _rounded(answer: Promise) -> dict[str, float]:
    levels = {name: math.ceil(1000 * level) / 1000 for name, level in answer.levels.items()}
    return {name: level for name, level in levels.items() if level < 1}


def answers(job_dir: pathlib.Path) -> list[Promise]:
    """Returns all answers of a job directory, oldest first.

    Raises:
        InputError: the file is damaged.
    """
    path = job_dir / FILE
    if not path.exists():
        return []
    try:
        return [_parsed(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path}: damaged: what was promised before cannot be counted: train again in a new --job-dir"
        ) from error


def _parsed(fields: dict[str, Any]) -> Promise:
    asked, point = fields["asked"], fields["operating_point"]
    given = asked["given"]
    return Promise(
        **fields
        | {
            "asked": PromiseRequest(**asked | {"given": None if given is None else OperatingPoint(**given)}),
            "operating_point": OperatingPoint(**point),
            "found": {
                setting: {name: Count(**count) for name, count in counts.items()}
                for setting, counts in fields["found"].items()
            },
        }
    )

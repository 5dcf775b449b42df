"""`triage evaluate --questions`: compares question policies in interviews.

It compares what the agent would decide after each answer.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from rich import box
from rich.console import Console
from rich.table import Table

from schemas import safety_rules
from schemas.errors import InputError
from schemas.triage import Action
from trainer.data import ddxplus
from trainer.data.arrays import VignetteArrays
from trainer.data.tfrecord import DDXPLUS, DataDirectory
from trainer.evaluation.agreement import majority_decisions
from trainer.evaluation.estimates import Estimate, bracketed
from trainer.evaluation.metrics import (
    estimates,
    judge,
    quality_by_others,
    summary,
    triage_quality,
)
from trainer.evaluation.options import LEARNED, OWN_CARD, QUESTION_LIMIT, RANDOM, STATIC, WHOLE_PATIENT, EvaluateOptions
from trainer.evaluation.question_policies import card_policy, random_policy, static_policy
from trainer.graph import mixture
from trainer.graph.decide import OperatingPoint
from trainer.graph.operating_point import FLOORS
from trainer.graph.questions import QuestionGraph
from trainer.interviews.patients import Patients, own_cards, whole_patients
from trainer.interviews.play import Interviews, Policy, interview, learned_policy
from trainer.training.job import TrainedNetwork
from triage_runtime.command_line.progress import followed, print_table
from triage_runtime.storage import locations

QUALITY = ("appropriateness", "safety")
_SHOWN = (0, 1, 2, 3, 5, 8, 10, 15, 20)


def report(
    given: EvaluateOptions, data: DataDirectory, trained: TrainedNetwork, vignettes: VignetteArrays
) -> dict[str, Any]:
    """Returns the figures of `triage evaluate --questions`, with estimates as named tuples.

    Raises:
        InputError: the data or the agent do not fit the track.
    """
    patients = _patients(given, data, vignettes)
    interviews, point = _interviews(given, data, trained, patients), trained.operating_point
    first, counts, minimum = next(iter(interviews)), patients.decision_counts, given.minimum_decisions
    by_others, against = quality_by_others(counts, minimum), judge(interviews[first].decisions(), counts)
    human = {name: by_others[name] for name in QUALITY}
    return {
        "job_dir": locations.shown(given.job_dir),
        "data": locations.shown(data.path),
        "data_fingerprint": data.data_fingerprint,
        "split": given.split,
        "track": given.track,
        "patients": len(patients.answers),
        "seed": given.seed,
        "training": trained.training,
        "clinicians": summary(human, given.seed) if len(human["safety"]) else None,
        "policies": {
            name: policy_figures(each, patients, point, None if name == first else against, minimum, given.seed)
            for name, each in interviews.items()
        },
    }


def _patients(given: EvaluateOptions, data: DataDirectory, vignettes: VignetteArrays) -> Patients:
    count = len(data.vocabulary)
    if given.track == OWN_CARD:
        return own_cards(vignettes, count, given.seed)
    if given.track == WHOLE_PATIENT:
        if not data.whole_patients:
            raise InputError(
                f"{given.data}: its patients cannot answer more than their vignettes list: give --track "
                f"{OWN_CARD}, or data of complete patients, made with --whole-patient"
            )
        return whole_patients(vignettes, count).at_home(data.vocabulary)
    known_codes = [entry.code for entry in ddxplus.demographics()]
    if data.stats.get("format") != DDXPLUS or not all(code in data.vocabulary for code in known_codes):
        raise InputError(f"{given.data}: not of triage prepare --format ddxplus: give another --track")
    return whole_patients(vignettes, count, [data.vocabulary.index(code) for code in known_codes])


def _interviews(
    given: EvaluateOptions, data: DataDirectory, trained: TrainedNetwork, patients: Patients
) -> dict[str, Interviews]:
    if trained.questions is None:
        raise InputError(
            f"{given.job_dir}: nothing to choose questions by: the agent learned from fewer than "
            f"{mixture.FEWEST_LEARNED} vignettes, or its job directory has lost questions.npz, which its triage train "
            "command writes if given again"
        )
    name = None if given.rules is None else str(given.rules)
    rules, _ = safety_rules.choose(name, trained.vocabulary)
    graph = QuestionGraph(trained.questions, trained.vocabulary, rules.rules, trained.signs)
    own = given.track == OWN_CARD
    learned = card_policy(graph, trained.model) if own and trained.has_probabilities else learned_policy(graph)
    flags = None if own else tf.function(graph.open_signs, autograph=False)
    chosen: dict[str, Policy] = {RANDOM: random_policy(given.seed), LEARNED: learned}
    names = given.questions or [LEARNED]
    if STATIC in names:
        chosen[STATIC] = static_policy(data.read("train", names=False, needed=True), len(data.vocabulary))
    return {
        name: interview(patients, trained.model, graph.may_ask, chosen[name], QUESTION_LIMIT, flags, graph.opening)
        for name in followed(names, "play", "policies")
    }


def policy_figures(
    interviews: Interviews,
    patients: Patients,
    point: OperatingPoint,
    against: Mapping[str, np.ndarray] | None,
    minimum_decisions: int,
    seed: int,
) -> dict[str, Any]:
    """Returns the figures of one policy, with their intervals over patients.

    `against` says how the decisions of the policy that it is compared with are judged, None for that policy itself.
    Patients with fewer decisions than `minimum_decisions` are left out of comparisons with clinicians.

    Returns:
        `appropriateness` and `safety`, a list by number of questions; the same with `_difference`, paired with
        `against`; `stopping` and `otherwise`, see below.
    """
    judged = judge(interviews.decisions(), patients.decision_counts)
    rows = {name: judged[name] for name in QUALITY}
    numbers = range(len(interviews.flagged))
    result: dict[str, Any] = {name: estimates(values.T.astype(float), seed, numbers) for name, values in rows.items()}
    if against is not None:
        for name, values in rows.items():
            result[f"{name}_difference"] = estimates((values.astype(float) - against[name]).T, seed)
    result["stopping"] = stopping(interviews, patients, point, minimum_decisions, seed)
    result["otherwise"] = stopping_otherwise(interviews, patients.decision_counts, point, seed)
    return result


def stopping(
    interviews: Interviews, patients: Patients, point: OperatingPoint, minimum_decisions: int, seed: int
) -> dict[str, Any]:
    """Returns the results of interviews that end as `Interviews.ends` says, or after the last question.

    Returns:
        `appropriateness`, `safety` and `questions`; `says`, the agent's own probabilities of the former two, if it has
        any; `red_sensitivity`, if there are Red cases; `evidence_recall`, the share of the present evidence that is
        known then, and `evidence_seen`, the share of everything that the patient can answer. If enough clinicians
        judged, also `as_clinicians`, the quality by all clinicians but one, and `less_clinicians`, its paired
        difference from the clinicians' own.
    """
    ends = interviews.ends(point)
    rows, counts = np.arange(len(ends)), patients.decision_counts
    decisions = interviews.decisions()[ends, rows]
    shares = {"evidence_recall": patients.answers > 0, "evidence_seen": patients.answers != 0}
    result: dict[str, Any] = _where_it_ends(ends, decisions, counts, seed)
    result |= summary({name: _known(interviews, patients, pieces, ends) for name, pieces in shares.items()}, seed)
    if "safe" in interviews.heads:
        chosen = (interviews.heads[head][ends, rows, decisions] for head in ("appropriate", "safe"))
        result["says"] = summary(dict(zip(QUALITY, chosen, strict=True)), seed)
    human = quality_by_others(counts, minimum_decisions)
    if len(human["safety"]):
        agent = quality_by_others(counts, minimum_decisions, decisions[np.newaxis])
        result["as_clinicians"] = summary({name: agent[name] for name in QUALITY}, seed)
        result["less_clinicians"] = summary({name: agent[name] - human[name] for name in QUALITY}, seed, paired=True)
    return result


def stopping_otherwise(
    interviews: Interviews, counts: np.ndarray, point: OperatingPoint, seed: int
) -> list[dict[str, Any]]:
    """Returns where interviews would stop with each floor under Q(ask), and with what results."""
    if "safe" not in interviews.heads:
        return []
    decisions, everybody = interviews.decisions(), np.arange(len(counts))
    found = []
    for sure_enough in FLOORS:
        ends = interviews.ends(dataclasses.replace(point, sure_enough=sure_enough))
        reached = _where_it_ends(ends, decisions[ends, everybody], counts, seed)
        found.append({"sure_enough": sure_enough, **reached})
    return found


def _where_it_ends(ends: np.ndarray, decisions: np.ndarray, counts: np.ndarray, seed: int) -> dict[str, Estimate]:
    """Returns the results of interviews that end after `ends` `[V]` questions with `decisions` `[V]`.

    `questions`, `appropriateness`, `safety`, and `red_sensitivity` if there are Red cases.
    """
    judged = triage_quality(decisions[np.newaxis], counts)
    result = summary({"questions": ends.astype(float), **{name: judged[name] for name in QUALITY}}, seed)
    red = majority_decisions(counts) == Action.RED
    if red.any():
        [result["red_sensitivity"]] = estimates((decisions == Action.RED)[red, np.newaxis].astype(float), seed, [0])
    return result


def _known(interviews: Interviews, patients: Patients, pieces: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns the share of `pieces` `[V, E]` that is known after `ends` `[V]` questions, float `[V]`; 1 without any."""
    before = (pieces & patients.known).sum(axis=1)
    rows = np.arange(len(pieces))
    cells = np.maximum(np.abs(interviews.revealed) - 1, 0)
    counts = (pieces[rows[:, np.newaxis], cells] & (interviews.revealed != 0)).sum(axis=2)  # [Q, V]
    known = np.concatenate([before[np.newaxis], before + counts.cumsum(axis=0)])[ends, rows]
    total = pieces.sum(axis=1)
    return np.where(total, known / np.maximum(total, 1), 1.0)


def print_report(report: Mapping[str, Any], details: bool = False) -> None:
    """Prints the report of `run`, as `--json` writes it, within 80 columns for up to six policies.

    With `details`, also where interviews with the first policy would stop with other settings.
    """
    console = Console(highlight=False)
    policies = report["policies"]
    console.print(
        f"{report['split']} split, track {report['track']}: {report['patients']:,} patients. Appropriateness / safety "
        "of what the agent would decide after each number of questions; one finding is known at the start."
    )
    table = Table("questions", *policies, box=box.SIMPLE)
    limit = len(next(iter(policies.values()))["safety"]) - 1
    for number in sorted({*(n for n in _SHOWN if n <= limit), limit}):
        cells = (_pair(each["appropriateness"][number], each["safety"][number]) for each in policies.values())
        table.add_row(str(number), *cells)
    table.add_section()
    table.add_row("stops after", *(f"{each['stopping']['questions']['mean']:.1f}" for each in policies.values()))
    table.add_row("  and decides", *(_both(each["stopping"]) for each in policies.values()))
    if all("says" in each["stopping"] for each in policies.values()):
        table.add_row("  and says", *(_both(each["stopping"]["says"]) for each in policies.values()))
    if all("red_sensitivity" in each["stopping"] for each in policies.values()):
        found = (each["stopping"]["red_sensitivity"]["mean"] for each in policies.values())
        table.add_row("  Red found", *(f"{each:.0%}" for each in found))
    table.add_row("  knowing", *(f"{each['stopping'][_seen(report)]['mean']:.0%}" for each in policies.values()))
    if report["clinicians"]:
        judged = (each["stopping"]["as_clinicians"] for each in policies.values())
        table.add_row("  by all but one", *(_both(each) for each in judged))
    print_table(table)
    if report["clinicians"]:
        console.print(f"clinicians, scored against all but one: {_both(report['clinicians'])}")
    _print_differences(console, policies, limit)
    otherwise = next(iter(policies.values()))["otherwise"]
    if details and otherwise:
        _print_otherwise(console, otherwise)


def _print_differences(console: Console, policies: Mapping[str, Any], limit: int) -> None:
    """Prints how the first policy differs from the others, patient by patient."""
    first, *others = policies
    for number in (number for number in (3, 5, 10) if number <= limit):
        for other in others:
            means = []
            for name in QUALITY:
                found = Estimate(**policies[other][f"{name}_difference"][number])
                low, high = (None, None) if found.ends is None else (-found.ends[1], -found.ends[0])
                means.append(f"{name} {bracketed(Estimate(-found.mean, low, high), '+.3f')}")
            console.print(f"{first} less {other} after {number} questions: {', '.join(means)}")


def _print_otherwise(console: Console, found: Sequence[Mapping[str, Any]]) -> None:
    console.print("Where the first one would stop with other options of triage evaluate or export:")
    table = Table("option", "questions", "decides", "Red sensitivity", box=box.SIMPLE)
    for each in found:
        floor = each["sure_enough"]
        option = "none" if floor is None else f"--sure-enough {floor}"
        red = f"{each['red_sensitivity']['mean']:.3f}" if "red_sensitivity" in each else ""
        table.add_row(option, f"{each['questions']['mean']:.1f}", _both(each), red)
    print_table(table)


def _seen(report: Mapping[str, Any]) -> str:
    """Returns which share of the known evidence is shown: of a card, or of all that is present."""
    return "evidence_seen" if report["track"] == OWN_CARD else "evidence_recall"


def _both(estimates: Mapping[str, Any]) -> str:
    return _pair(*(estimates[name] for name in QUALITY))


def _pair(appropriateness: Mapping[str, Any], safety: Mapping[str, Any]) -> str:
    return f"{appropriateness['mean']:.3f} / {safety['mean']:.3f}".replace("0.", ".")

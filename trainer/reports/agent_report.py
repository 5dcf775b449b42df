"""All figures of one agent, which `triage evaluate --data` writes as JSON and shows as a page."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas.errors import InputError
from schemas.safety_rules import RuleSet, SafetyRule
from trainer.data.arrays import VignetteArrays
from trainer.data.textbook_case import DEFAULT, TextbookCase, fitting_cases, read_cases
from trainer.data.tfrecord import DataDirectory, is_simulated
from trainer.dyqn.rollout import greedy_policy, order_seeds
from trainer.evaluation import (
    agreement,
    cases,
    cautions,
    measurement,
    metrics,
    slices,
    walk,
)
from trainer.evaluation.case_play import lead_cases, play_cases
from trainer.evaluation.cases import CaseFigures, TextbookFigures
from trainer.evaluation.estimates import (
    AsClinicians,
    Baselines,
    Calibration,
    Confusion,
    Estimate,
    Estimates,
    Gap,
    RuleEffect,
    SliceFigures,
)
from trainer.evaluation.measurement import HandedOver
from trainer.evaluation.options import EvaluateOptions
from trainer.graph.decide import OperatingPoint
from trainer.graph.questions import QuestionGraph
from trainer.graph.rules import RuleGraph
from trainer.interviews.play import Leader, Leaving
from trainer.reports.comparison import Comparison, compare
from trainer.training import promises
from trainer.training.job import TrainedNetwork
from triage_runtime.storage import locations

_NOT_COMPARED = ("majority", "evidence")
"""Slices that differ for reasons other than the patients' group."""


class Point(NamedTuple):
    """What weighs in the agent's Q-values, as settings of its training, and the floor under Q(ask), if any."""

    safety_weight: float
    price: float
    sure_enough: float | None


class Gaps(NamedTuple):
    """Groups of patients for whom the agent is worse than for the others."""

    worse: list[Gap]
    comparisons: int


class AgentReport(NamedTuple):
    """All figures of one agent, in the order of the JSON."""

    job_dir: str
    data: str
    data_fingerprint: str
    vocabulary_fingerprint: str
    trained_on: str  # the fingerprint of those data
    simulated: bool | None  # None if it is not known
    split: str
    vignettes: int
    mean_evidence: float
    orders: int
    seed: int
    training: Mapping[str, int]  # steps and episodes
    networks: int
    max_questions: int
    operating_point: Point | None  # None for an agent without probabilities
    promises: Sequence[promises.Promise]
    human: Estimates | None  # this and the next three as in `Baselines`
    human_agreement: Estimates | None
    human_minimum_decisions: int
    constants: Mapping[str, Mapping[str, Estimate]]
    interviews: Comparison | None  # of interviews that the agent leads, with its safety rules; None if none were
    comparison: Comparison  # of episodes in random evidence order
    agent: Mapping[str, Estimate]  # this and the next five as in `AgentFigures`
    agreement: Estimates
    confusion: Confusion
    calibration: Mapping[str, Any] | None
    probabilities: Mapping[str, Mapping[str, Calibration]] | None
    slices: Sequence[SliceFigures]
    slice_names: Mapping[str, str]  # of the codes of `--slice`
    as_clinicians: AsClinicians | None
    handing_over: Sequence[HandedOver]
    safety_rules: RuleEffect | None
    no_safety_rules: str  # why there are none, "" otherwise
    textbook_cases: TextbookFigures | None
    gaps: Gaps
    errors: Sequence[Mapping[str, Any]]  # see `walk.worst_cases`
    cautions: Sequence[str] = ()

    def described(self) -> Mapping[str, Any]:
        """Returns the report as JSON holds it."""
        textbook = self.textbook_cases
        return self._asdict() | {
            "promises": [promises.in_words(answer) for answer in self.promises],
            "textbook_cases": None if textbook is None else textbook.described(),
        }


def agent_report(
    given: EvaluateOptions,
    data: DataDirectory,
    trained: TrainedNetwork,
    vignettes: VignetteArrays,
    rules: RuleSet,
) -> AgentReport:
    """Returns all figures; with `rules`, also what they change.

    Raises:
        InputError: cases or codes of slices do not fit the vocabulary.
    """
    counts, seed, minimum = vignettes.decision_counts, given.seed, given.minimum_decisions
    by_evidence = _evidence_groups(given, trained, vignettes)
    seeds = order_seeds(seed, given.orders)
    outcomes = measurement.agent_outcomes(
        trained.model, vignettes, seeds, trained.max_questions, point=trained.operating_point
    )
    measured = measurement.agent_figures(outcomes, vignettes, seed)
    values = metrics.agent_metrics(outcomes, counts)
    effect = None
    if len(rules):
        graph = RuleGraph(rules.rules, trained.vocabulary)
        obedient = measurement.agent_outcomes(
            trained.model, vignettes, seeds, trained.max_questions, graph, trained.operating_point
        )
        effect = measurement.rule_effect(rules, outcomes, obedient, counts, minimum, seed)
    baselines = measurement.baseline_figures(counts, minimum, seed)
    judged = agreement.leave_one_out(outcomes.decisions, counts, minimum, seed)
    agent = walk.GreedyAgent(trained.model, trained.vocabulary, trained.max_questions, trained.operating_point, rules)
    return AgentReport(
        job_dir=locations.shown(given.job_dir),
        data=locations.shown(data.path),
        data_fingerprint=data.data_fingerprint,
        vocabulary_fingerprint=data.vocabulary.fingerprint,
        trained_on=trained.data_fingerprint,
        simulated=is_simulated(data.stats),
        split=given.split,
        vignettes=len(counts),
        mean_evidence=float(np.diff(vignettes.offsets).mean()),
        orders=given.orders,
        seed=seed,
        training=trained.training,
        networks=trained.config["network"]["networks"],
        max_questions=trained.max_questions,
        operating_point=Point(trained.target.safety_weight, trained.target.price, trained.operating_point.sure_enough)
        if trained.has_probabilities
        else None,
        promises=[
            answer for answer in promises.answers(given.job_dir) if answer.asked.step == trained.training["steps"]
        ],
        **baselines._asdict(),
        interviews=_interviews(given, trained, vignettes, data.whole_patients, rules, baselines),
        comparison=compare({**measured.agent, **measured.agreement}, baselines, judged, effect),
        **measured._replace(slices=[*slices.slice_figures(values, by_evidence, seed), *measured.slices])._asdict(),
        slice_names={code: trained.vocabulary[trained.vocabulary.index(code)].name for code in given.slice},
        as_clinicians=judged,
        handing_over=measurement.hand_over_effects(outcomes, counts),
        safety_rules=effect,
        no_safety_rules="",
        textbook_cases=_textbook(given, trained, rules),
        gaps=_gaps(values, vignettes, by_evidence, seed),
        errors=walk.worst_cases(agent, outcomes, vignettes, seeds),
        cautions=cautions.cautions(given.split, len(counts), measured.agent),
    )


def _interviews(
    given: EvaluateOptions,
    trained: TrainedNetwork,
    vignettes: VignetteArrays,
    whole: bool,
    rules: RuleSet,
    baselines: Baselines,
) -> Comparison | None:
    """Returns the agent beside the clinicians where it interviews the patients and obeys `rules`, hands nobody over.

    None without a page to show it on, and for an agent that cannot choose questions.
    """
    if given.html is None or trained.questions is None:
        return None
    leader = Leader(trained.model, trained.vocabulary, trained.questions, rules, trained.signs, trained.max_questions)
    endings = Leaving(leader, vignettes, whole).endings(_deciding(trained))
    counts, decisions = vignettes.decision_counts, endings.decisions[np.newaxis]
    quality = {**metrics.triage_quality(decisions, counts), "questions": endings.questions.astype(float)}
    agent = {**metrics.summary(quality, given.seed), **agreement.agent_agreement(decisions, counts, given.seed)}
    judged = agreement.leave_one_out(decisions, counts, given.minimum_decisions, given.seed)
    return compare(agent, baselines, judged, None)


def _deciding(trained: TrainedNetwork) -> OperatingPoint:
    """Returns the operating point at which the agent decides on all cases itself."""
    return dataclasses.replace(trained.operating_point, hand_over_from=None)


def _textbook(given: EvaluateOptions, trained: TrainedNetwork, rules: RuleSet) -> TextbookFigures | None:
    if given.cases is not None:
        textbook = read_cases(given.cases, trained.vocabulary)
    else:
        textbook = () if given.html is None else fitting_cases(trained.vocabulary)
    return case_figures(given.cases or DEFAULT, textbook, trained, rules) if textbook else None


def case_figures(
    path: str | pathlib.Path, textbook: Sequence[TextbookCase], trained: TrainedNetwork, rules: RuleSet
) -> TextbookFigures:
    """Returns the figures of the agent on the cases of `path`, also with rules if there are any."""
    point = _deciding(trained)

    def played(obeyed: Sequence[SafetyRule]) -> CaseFigures:
        rule_graph = RuleGraph(obeyed, trained.vocabulary) if obeyed else None
        policy = greedy_policy(trained.model, rule_graph, point)
        decided = play_cases(policy, textbook, trained.vocabulary, trained.max_questions)
        if trained.questions is not None:
            graph = QuestionGraph(trained.questions, trained.vocabulary, obeyed, trained.signs)
            interview, questions = lead_cases(
                trained.model, graph, rule_graph, point, textbook, trained.vocabulary, trained.max_questions
            )
            decided = decided._replace(interview=interview, questions=questions)
        return cases.case_figures(textbook, decided)

    with_rules = played(rules.rules) if len(rules) else None
    return TextbookFigures(locations.shown(path), played(()), with_rules)


def _evidence_groups(given: EvaluateOptions, trained: TrainedNetwork, vignettes: VignetteArrays) -> list[slices.Group]:
    unknown = [code for code in given.slice if code not in trained.vocabulary]
    if unknown:
        raise InputError(
            f"--slice {unknown[0]}: {trained.vocabulary.unknown_message(unknown[0])}: give codes of "
            f"{given.job_dir / 'vocabulary.csv'}"
        )
    return slices.evidence_groups(vignettes.offsets, vignettes.signed_codes, trained.vocabulary, given.slice)


def _gaps(
    values: Mapping[str, np.ndarray], vignettes: VignetteArrays, by_evidence: list[slices.Group], seed: int
) -> Gaps:
    """Returns for which groups of patients, by evidence or tag, the agent is worse than for the others."""
    tagged = slices.groups(vignettes.tags, vignettes.decision_counts, np.diff(vignettes.offsets))
    patients = [*by_evidence, *(group for group in tagged if group.by not in _NOT_COMPARED)]
    return Gaps(*slices.gaps(values, patients, seed))

"""All figures of one agent, which `triage evaluate --data` writes as JSON and shows as a page."""

from typing import Any

import numpy as np

from schemas import safety_rules
from schemas.errors import InputError
from schemas.safety_rules import RuleSet
from schemas.triage import NUM_ACTIONS
from trainer.decision.rules import RuleGraph
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import (
    as_clinicians,
    cautions,
    frontier,
    handing_over,
    measurement,
    metrics,
    slices,
    symptom_checkers,
    walk,
)
from trainer.reports import case_report
from trainer.reports.evaluate_options import EvaluateOptions
from trainer.reports.symptom_checker_csv import AGENT, RULED
from trainer.training import operating_point_options, promises
from trainer.training.job import JobDirectory, TrainedNetwork
from trainer.training.operating_point_options import OperatingPointOptions
from trainer.vignettes.arrays import VignetteArrays
from trainer.vignettes.textbook_case import DEFAULT, TextbookCase, fitting_cases, read_cases
from trainer.vignettes.tfrecord import DataDirectory
from triage_runtime.command_line import figures
from triage_runtime.storage import locations

CLINICIANS = "clinicians"
_LEARNED = ("appropriateness", "safety", "over_triage", "questions")
_NOT_COMPARED = ("majority", "evidence")
"""Slices that differ for reasons other than the patients' group."""


def agent_report(
    given: EvaluateOptions,
    point: OperatingPointOptions,
    data: DataDirectory,
    trained: TrainedNetwork,
    vignettes: VignetteArrays,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns all figures, ready for JSON, and the decisions `[K, V]` of the agent and of the agent with rules.

    Raises:
        InputError: rules, cases or codes of slices do not fit the vocabulary.
    """
    counts, seed, minimum = vignettes.decision_counts, given.seed, given.minimum_decisions
    rules, no_rules = _rules(given, trained)
    groups = _evidence_groups(given, trained, vignettes)
    seeds = measurement.order_seeds(seed, given.orders)
    outcomes = measurement.play(trained.model, vignettes, seeds, trained.max_questions, point=trained.operating_point)
    triage = frontier.RecordedTriage(trained.model, trained.operating_point)
    report: dict[str, Any] = {
        **_identity(given, data, trained, vignettes),
        "promises": [promises.text(answer) for answer in promises.answers(given.job_dir)],
        **measurement.baseline_figures(counts, minimum, seed),
        **measurement.agent_figures(outcomes, vignettes, seed),
        "as_clinicians": figures.plain(as_clinicians.figures(outcomes.decisions, counts, minimum, seed)),
        "by_evidence": measurement.evidence_figures(triage, vignettes, len(data.vocabulary), seeds, seed),
        "frontier": None,
        "handing_over": figures.plain(handing_over.frontier(outcomes, counts)),
        "learning": _learning(given, trained),
        "safety_rules": None,
        "no_safety_rules": no_rules,
        "textbook_cases": None,
    }
    outputs = triage.outputs(given.orders)
    if outputs is not None:
        points = operating_point_options.points_by_weight(point, trained)
        played = frontier.frontier(outputs, vignettes, points, trained.max_questions, trained.operating_point, seed)
        report["frontier"] = figures.plain(played)
    report |= _groups(outcomes, vignettes, groups, report["slices"], seed)
    decisions = {AGENT: outcomes.decisions}
    if len(rules):
        graph = RuleGraph(rules.rules, trained.vocabulary)
        obedient = measurement.play(
            trained.model, vignettes, seeds, trained.max_questions, graph, trained.operating_point
        )
        decisions[RULED] = obedient.decisions
        report["safety_rules"] = {
            "rules": rules.described(),
            **measurement.rule_effect(outcomes, obedient, counts, seed),
            "as_clinicians": figures.plain(as_clinicians.figures(obedient.decisions, counts, minimum, seed)),
        }
    those = symptom_checkers.compared(decisions, counts, minimum, CLINICIANS)
    report["symptom_checkers"] = figures.plain(symptom_checkers.figures(those, seed))
    agent = walk.Agent(trained.model, trained.vocabulary, trained.max_questions, trained.operating_point, rules)
    report["errors"] = walk.worst_cases(agent, outcomes, vignettes, seeds)
    textbook = _textbook(given, trained)
    if textbook:
        report["textbook_cases"] = {
            "cases": locations.shown(given.cases or DEFAULT),
            **case_report.case_figures(textbook, trained, rules),
        }
    report["cautions"] = cautions.cautions(report)
    return report, decisions


def _identity(
    given: EvaluateOptions, data: DataDirectory, trained: TrainedNetwork, vignettes: VignetteArrays
) -> dict[str, Any]:
    """Returns which agent is measured on which vignettes."""
    probabilities = trained.model.output_shape[-1] > NUM_ACTIONS
    return {
        "job_dir": locations.shown(given.job_dir),
        "data": locations.shown(given.data),
        "data_fingerprint": data.data_fingerprint,
        "vocabulary_fingerprint": data.vocabulary.fingerprint,
        "trained_on": trained.data_fingerprint,
        # Only vignettes from triage simulate are known to be simulated; prepared ones may be either.
        "simulated": True if data.stats.get("format") == "simulate" else None,
        "split": given.split,
        "vignettes": len(vignettes.decision_counts),
        "mean_evidence": float(np.diff(vignettes.offsets).mean()),
        "orders": given.orders,
        "seed": given.seed,
        "training": trained.training,
        "networks": trained.config["network"]["networks"],
        "max_questions": trained.max_questions,
        "operating_point": {
            "safety_weight": trained.operating_point.safety_weight,
            "sure_enough": trained.operating_point.sure_enough,
            "price": trained.operating_point.price,
            "chosen": trained.point_chosen,
        }
        if probabilities
        else None,
    }


def _rules(given: EvaluateOptions, trained: TrainedNetwork) -> tuple[RuleSet, str]:
    """Returns the rules to play the agent with, too, and why there are none, "" otherwise."""
    if given.rules is None and given.html is None:
        return safety_rules.NO_RULES, "not asked for: give --rules, or --html"
    rules, remark = safety_rules.choose(None if given.rules is None else str(given.rules), trained.vocabulary)
    if given.rules is not None and not len(rules):
        raise InputError("--rules none: there are no rules to compare with: leave the option out")
    return rules, remark


def _textbook(given: EvaluateOptions, trained: TrainedNetwork) -> tuple[TextbookCase, ...]:
    if given.cases is not None:
        return read_cases(given.cases, trained.vocabulary)
    return () if given.html is None else fitting_cases(trained.vocabulary)


def _evidence_groups(given: EvaluateOptions, trained: TrainedNetwork, vignettes: VignetteArrays) -> list[slices.Group]:
    unknown = [code for code in given.slice if code not in trained.vocabulary]
    if unknown:
        raise InputError(
            f"--slice {unknown[0]}: {trained.vocabulary.unknown_message(unknown[0])}: give codes of "
            f"{given.job_dir / 'vocabulary.csv'}"
        )
    return slices.evidence_groups(vignettes.offsets, vignettes.signed_codes, trained.vocabulary, given.slice)


def _groups(
    outcomes: Outcomes,
    vignettes: VignetteArrays,
    by_evidence: list[slices.Group],
    others: list[dict[str, Any]],
    seed: int,
) -> dict[str, Any]:
    """Returns all `slices`, those of `by_evidence` first, and the `gaps` between groups of patients."""
    counts = vignettes.decision_counts
    values = metrics.agent_metrics(outcomes, counts)
    tagged = slices.groups(vignettes.tags, counts, np.diff(vignettes.offsets))
    patients = [*by_evidence, *(group for group in tagged if group.by not in _NOT_COMPARED)]
    worse, comparisons = slices.gaps(values, patients, seed)
    return {
        "slices": [*figures.plain(slices.slice_figures(values, by_evidence, seed)), *others],
        "gaps": {"worse": figures.plain(worse), "comparisons": comparisons},
    }


def _learning(given: EvaluateOptions, trained: TrainedNetwork) -> dict[str, Any]:
    """Returns what the job directory has recorded up to the step that is measured."""
    job, step = JobDirectory(given.job_dir), trained.training["steps"]
    return {
        "evaluations": [
            {"step": each["step"], "metrics": {name: each["metrics"][name] for name in _LEARNED}}
            for each in job.evaluations()
            if each["step"] <= step
        ],
        "validation_losses": [each for each in job.validation_losses() if each["step"] <= step],
    }

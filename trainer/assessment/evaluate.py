"""`triage evaluate`: measures a trained agent on the vignettes of a data directory."""

import argparse
import dataclasses
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from schemas import figures, locations, safety_rules
from schemas.errors import InputError
from trainer import options
from trainer.evaluation.measurement import (
    ORDERS,
    agent_figures,
    baseline_figures,
    evidence_figures,
    order_seeds,
    play,
)
from trainer.questions import options as question_options
from trainer.runs import dial_options
from trainer.runs.dial_options import DialOptions

if TYPE_CHECKING:  # TensorFlow loads only when the command runs
    from trainer.dyqn.rollout import Outcomes
    from trainer.runs.job import TrainedNetwork
    from trainer.vignettes.arrays import VignetteArrays
    from trainer.vignettes.tfrecord import DataDirectory


@dataclasses.dataclass(frozen=True)
class EvaluateOptions:
    """The options of `triage evaluate --data`, see its help."""

    job_dir: pathlib.Path
    data: pathlib.Path
    split: str
    step: int | None
    orders: int
    seed: int
    minimum_decisions: int
    slices: bool
    rules: pathlib.Path | None
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("orders", self.orders, 1)
        options.check_bounds("seed", self.seed, 0)
        options.check_bounds("minimum_decisions", self.minimum_decisions, 2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage evaluate`."""
    parser.add_argument("--job-dir", type=locations.source_job, required=True, help="directory of the training run")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--data", type=locations.source, help="data directory, as triage prepare makes it")
    what.add_argument(
        "--cases",
        type=locations.source,
        metavar="FILE",
        help="textbook cases to play instead (docs/cases.md), without the options for vignettes",
    )
    parser.add_argument("--split", choices=("train", "test"), default="test", help="vignettes to use (default test)")
    parser.add_argument("--step", type=int, help="step of the checkpoint (default: the newest)")
    parser.add_argument(
        "--orders", type=int, default=ORDERS, help=f"random evidence orders to average over (default {ORDERS})"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the orders and the bootstrap (default 0)")
    parser.add_argument(
        "--minimum-decisions", type=int, default=3, help="decisions a vignette needs for the human baseline (default 3)"
    )
    parser.add_argument(
        "--slices", action="store_true", help="print the metrics by tag, majority decision and evidence"
    )
    question_options.add_arguments(parser)
    parser.add_argument(
        "--rules",
        type=locations.source,
        metavar="FILE",
        help="play the agent with these safety rules too, and print the difference: a file (docs/rules.md), or default",
    )
    dial_options.add_arguments(parser)
    figures.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    dial = options.read(DialOptions, arguments)
    if arguments.cases is not None:
        from trainer.assessment import case_report

        return case_report.run(options.read(case_report.CaseOptions, arguments), dial)
    given = options.read(EvaluateOptions, arguments)
    if arguments.questions:
        from trainer.assessment import question_report

        limits = options.read(question_options.QuestionOptions, arguments)
        report = figures.plain(question_report.report(limits, *_load(given, dial)))
        if given.json != "-":
            question_report.print_report(report)
        figures.write(report, given.json)
        return 0
    from trainer.assessment.evaluation_table import print_report
    from trainer.evaluation.rule_effect import print_effect

    report = _report(given, dial, *_load(given, dial))
    for caution in report["cautions"]:
        sys.stderr.write(f"warning: {caution}\n")
    if given.json != "-":
        print_report(report, given.slices)
        if "safety_rules" in report:
            print_effect(report["safety_rules"])
    figures.write(report, given.json)
    return 0


def _report(
    given: EvaluateOptions,
    dial: DialOptions,
    data: "DataDirectory",
    trained: "TrainedNetwork",
    vignettes: "VignetteArrays",
) -> dict[str, Any]:
    """Returns all figures, as `--json` writes them."""
    from trainer.evaluation import as_clinicians, cautions, frontier

    counts, seed, minimum = vignettes.decision_counts, given.seed, given.minimum_decisions
    seeds = order_seeds(seed, given.orders)
    outcomes = play(trained.model, vignettes, seeds, trained.max_questions, dial=trained.dial)
    triage = frontier.RecordedTriage(trained.model, trained.dial)
    report = {
        "job_dir": locations.shown(given.job_dir),
        "data": locations.shown(given.data),
        "data_fingerprint": data.data_fingerprint,
        "split": given.split,
        "vignettes": len(counts),
        "orders": given.orders,
        "seed": seed,
        "training": trained.training,
        **baseline_figures(counts, minimum, seed),
        **agent_figures(outcomes, vignettes, seed),
        "as_clinicians": figures.plain(as_clinicians.figures(outcomes.decisions, counts, minimum, seed)),
        "by_evidence": evidence_figures(triage, vignettes, len(data.vocabulary), seeds, seed),
        "frontier": None,
    }
    outputs = triage.outputs(given.orders)
    if outputs is not None:
        dials = dial_options.dials_by_weight(dial, trained)
        report["frontier"] = figures.plain(
            frontier.frontier(outputs, vignettes, dials, trained.max_questions, trained.dial)
        )
    report["cautions"] = cautions.cautions(report)
    if given.rules is not None:
        report["safety_rules"] = _rule_figures(given, trained, vignettes, outcomes)
    return report


def _rule_figures(
    given: EvaluateOptions, trained: "TrainedNetwork", vignettes: "VignetteArrays", outcomes: "Outcomes"
) -> dict[str, Any]:
    """Returns what the rules of `--rules` change in `outcomes`, which were played without rules."""
    from trainer.evaluation.rule_effect import rule_effect
    from trainer.safeguards.rules import RuleGraph

    rules, _ = safety_rules.choose(str(given.rules), trained.vocabulary)
    if not len(rules):
        raise InputError("--rules none: there are no rules to compare with: leave the option out")
    graph = RuleGraph(rules.rules, trained.vocabulary)
    seeds = order_seeds(given.seed, given.orders)
    obedient = play(trained.model, vignettes, seeds, trained.max_questions, graph, trained.dial)
    effect = rule_effect(outcomes, obedient, vignettes.decision_counts, given.seed)
    return {"rules": rules.described(), **figures.plain(effect)}


def _load(given: EvaluateOptions, dial: DialOptions) -> tuple["DataDirectory", "TrainedNetwork", "VignetteArrays"]:
    """Returns the data, the agent and the vignettes that the options name.

    Raises:
        InputError: they cannot be read, or do not fit each other.
    """
    from trainer.runs.job import load_network
    from trainer.vignettes.tfrecord import DataDirectory

    data = DataDirectory.open(given.data).whole()
    trained = dial_options.apply(dial, load_network(given.job_dir, given.step), given.job_dir)
    if data.vocabulary.fingerprint != trained.vocabulary.fingerprint:
        raise InputError(
            f"{given.data}: its vocabulary is not the one that {given.job_dir} was trained with: prepare the data with "
            f"--vocabulary {given.job_dir / 'vocabulary.csv'}"
        )
    vignettes = data.read(given.split)
    if not len(vignettes.decision_counts):
        raise InputError(f"{given.data}: the {given.split} split has no vignettes")
    return data, trained, vignettes

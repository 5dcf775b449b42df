"""`triage evaluate`: measures a trained agent on the vignettes of a data directory."""

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from schemas import figures, locations, safety_rules
from schemas.errors import InputError
from schemas.triage import DECISION_LABELS, MAX_QUESTIONS
from trainer import options
from trainer.questions import options as question_options
from trainer.runs import dial_options
from trainer.runs.dial_options import DialOptions

if TYPE_CHECKING:  # TensorFlow loads only when the command runs
    import keras
    import numpy as np

    from trainer.dyqn.decision import Dial
    from trainer.dyqn.environment import Vignettes
    from trainer.dyqn.rollout import Outcomes
    from trainer.evaluation.prefixes import Triage
    from trainer.runs.job import TrainedNetwork
    from trainer.safeguards.rules import RuleGraph
    from trainer.vignettes.arrays import VignetteArrays
    from trainer.vignettes.tfrecord import DataDirectory

ORDERS = 10


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


def play(
    network: "keras.Model",
    vignettes: "Vignettes",
    seeds: list[int],
    max_questions: int = MAX_QUESTIONS,
    rules: "RuleGraph | None" = None,
    dial: "Dial | None" = None,
) -> "Outcomes":
    """Returns the episodes of the greedy agent, one evidence order for each of `seeds`; shows the progress.

    With `rules` the agent obeys them; `dial` says how it weighs the probabilities of a network that has them.
    """
    from trainer.dyqn.decision import NEUTRAL
    from trainer.dyqn.rollout import Rollout, greedy_policy

    policy = greedy_policy(network, rules, dial or NEUTRAL)
    rollout = Rollout(vignettes, network.input_shape[-1], max_questions, policy)
    return rollout.run(_tracked(seeds, "evidence orders"))


def agent_figures(outcomes: "Outcomes", vignettes: "VignetteArrays", seed: int) -> dict[str, Any]:
    """Returns the figures of any agent's episodes, ready for JSON; undefined figures are None.

    Args:
        outcomes: episodes of these vignettes.
        vignettes: one or more.
        seed: of the bootstrap.

    Returns:
        `agent` (`metrics.agent_metrics`), `agreement` (`agreement.agent_agreement`), the `confusion` matrix,
        `calibration` of the Q-values at the decision (None for an agent without Q-values), `probabilities`: the
        calibration of P(appropriate) and P(safe), see `calibration.probability_figures` (None for an agent without
        them), `slices`, and
        `unseen` (behaviour on vignettes with that tag, against the others; None unless there are both).
    """
    import numpy as np

    from trainer.evaluation import agreement, calibration, metrics, slices

    counts = vignettes.decision_counts
    values = metrics.agent_metrics(outcomes, counts)
    groups = slices.groups(vignettes.tags, counts, np.diff(vignettes.offsets))
    confusion = agreement.confusion_shares(outcomes.decisions, counts).sum(axis=0)
    return figures.plain(
        {
            "agent": metrics.summary(values, seed),
            "agreement": agreement.agent_agreement(outcomes.decisions, counts, seed),
            "confusion": {"rows": "clinicians", "columns": "agent", "labels": DECISION_LABELS, "matrix": confusion},
            "calibration": None
            if outcomes.q_values is None
            else calibration.q_value_figures(outcomes.q_values, counts, seed),
            "probabilities": None
            if outcomes.probabilities is None
            else calibration.probability_figures(outcomes.probabilities, outcomes.decisions, counts, seed),
            "slices": slices.slice_figures(values, groups, seed),
            "unseen": slices.unseen_contrast(values, vignettes.tags, seed),
        }
    )


def evidence_figures(
    triage: "Triage", vignettes: "Vignettes", evidence_count: int, seeds: list[int], seed: int
) -> list[dict[str, Any]]:
    """Returns `trainer.evaluation.prefixes.metrics_by_evidence`, ready for JSON; shows the progress on a terminal."""
    from trainer.evaluation.prefixes import metrics_by_evidence

    orders = _tracked(seeds, "evidence seen")
    return figures.plain(metrics_by_evidence(vignettes, evidence_count, triage, orders, seed))


def order_seeds(seed: int, orders: int) -> list[int]:
    """Returns the seed of each of `orders` random evidence orders."""
    import numpy as np

    return [int(state) for state in np.random.SeedSequence(seed).generate_state(orders)]


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    dial = options.read(DialOptions, arguments)
    if arguments.cases is not None:
        from trainer.evaluation import case_report

        return case_report.run(options.read(case_report.CaseOptions, arguments), dial)
    given = options.read(EvaluateOptions, arguments)
    if arguments.questions:
        from trainer.evaluation import question_report

        limits = options.read(question_options.QuestionOptions, arguments)
        report = figures.plain(question_report.report(limits, *_load(given, dial)))
        if given.json != "-":
            question_report.print_report(report)
        figures.write(report, given.json)
        return 0
    from trainer.evaluation.evaluation_table import print_report
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


def baseline_figures(decision_counts: "np.ndarray", minimum_decisions: int, seed: int) -> dict[str, Any]:
    """Returns the figures of the clinicians and of the constant policies on the same vignettes, ready for JSON.

    Args:
        decision_counts: `[V, 4]`, V at least 1.
        minimum_decisions: vignettes with fewer are left out of the clinicians' figures; at least 2.
        seed: of the bootstrap.

    Returns:
        `human` and `human_agreement` (None if no vignette has enough decisions), `human_minimum_decisions`,
        `constants` by name.
    """
    from trainer.evaluation import agreement, metrics

    human = metrics.human_metrics(decision_counts, minimum_decisions)
    human["over_triage"] = human["safety"] - human["appropriateness"]
    human["under_triage"] = 1 - human["safety"]
    constants = metrics.constant_metrics(decision_counts)
    return figures.plain(
        {
            "human": metrics.summary(human, seed) if len(human["appropriateness"]) else None,
            "human_agreement": agreement.clinician_agreement(decision_counts, minimum_decisions, seed),
            "human_minimum_decisions": minimum_decisions,
            "constants": {
                f"always {label.lower()}": metrics.summary(quality, seed) for label, quality in constants.items()
            },
        }
    )


def _tracked(seeds: list[int], description: str) -> Iterable[int]:
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(seeds, description, console=console, disable=not console.is_terminal)

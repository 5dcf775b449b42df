"""`triage evaluate`: measures a trained agent on the vignettes of a data directory."""

import argparse
import pathlib
from typing import TYPE_CHECKING, Any

from schemas import figures
from schemas.errors import InputError
from schemas.triage import MAX_QUESTIONS

if TYPE_CHECKING:  # TensorFlow loads only when the command runs
    import keras

    from trainer.environment import Vignettes
    from trainer.metrics import Estimate

ORDERS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage evaluate`."""
    parser.add_argument("--job-dir", type=pathlib.Path, required=True, help="directory of the training run")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="data directory, as triage prepare makes it")
    parser.add_argument("--split", choices=("train", "test"), default="test", help="vignettes to use (default test)")
    parser.add_argument("--step", type=int, help="step of the checkpoint (default: the newest)")
    parser.add_argument(
        "--orders", type=int, default=ORDERS, help=f"random evidence orders to average over (default {ORDERS})"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the orders and the bootstrap (default 0)")
    parser.add_argument(
        "--minimum-decisions", type=int, default=3, help="decisions a vignette needs for the human baseline (default 3)"
    )
    figures.add_argument(parser)


def evaluate_network(
    network: "keras.Model", vignettes: "Vignettes", orders: int, seed: int, max_questions: int = MAX_QUESTIONS
) -> dict[str, "Estimate"]:
    """Returns the metrics of the greedy agent, see `trainer.metrics.agent_metrics`; a terminal sees the progress.

    Args:
        network: Q_theta.
        vignettes: what to play; all in one batch.
        orders: number of random evidence orders of each vignette.
        seed: of the orders and of the bootstrap.
        max_questions: where a decision is forced.
    """
    from rich.console import Console
    from rich.progress import track

    from trainer import metrics
    from trainer.rollout import Rollout, greedy_policy

    rollout = Rollout(vignettes, network.input_shape[-1], max_questions, greedy_policy(network))
    console = Console(stderr=True)
    seeds = order_seeds(seed, orders)
    outcomes = rollout.run(track(seeds, "evidence orders", console=console, disable=not console.is_terminal))
    return metrics.summary(metrics.agent_metrics(outcomes, vignettes.decision_counts), seed)


def order_seeds(seed: int, orders: int) -> list[int]:
    """Returns the seed of each of `orders` random evidence orders."""
    import numpy as np

    return [int(state) for state in np.random.SeedSequence(seed).generate_state(orders)]


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    from trainer.job import load_network
    from trainer.tfrecord import DataDirectory

    if arguments.orders < 1 or arguments.minimum_decisions < 2 or arguments.seed < 0:
        raise InputError("--orders must be at least 1, --minimum-decisions at least 2 and --seed 0 or more")
    data = DataDirectory.open(arguments.data)
    trained = load_network(arguments.job_dir, arguments.step)
    if data.vocabulary.fingerprint != trained.vocabulary.fingerprint:
        raise InputError(
            f"{arguments.data}: its vocabulary is not the one that {arguments.job_dir} was trained with: prepare the "
            f"data with --vocabulary {arguments.job_dir / 'vocabulary.csv'}"
        )
    vignettes = data.read(arguments.split)
    if not len(vignettes.decision_counts):
        raise InputError(f"{arguments.data}: the {arguments.split} split has no vignettes")
    agent = evaluate_network(trained.model, vignettes, arguments.orders, arguments.seed, trained.max_questions)
    report = {
        "job_dir": str(arguments.job_dir),
        "data": str(arguments.data),
        "data_fingerprint": data.data_fingerprint,
        "split": arguments.split,
        "vignettes": len(vignettes.decision_counts),
        "orders": arguments.orders,
        "seed": arguments.seed,
        "training": trained.training,
        **_baselines(vignettes, arguments),
        "agent": {name: estimate._asdict() for name, estimate in agent.items()},
    }
    if arguments.json != "-":
        _print(report)
    figures.write(report, arguments.json)
    return 0


def _baselines(vignettes: "Vignettes", arguments: argparse.Namespace) -> dict[str, Any]:
    from trainer import metrics

    counts = vignettes.decision_counts
    human = metrics.human_metrics(counts, arguments.minimum_decisions)
    constants = {
        f"always {label.lower()}": {
            name: estimate._asdict() for name, estimate in metrics.summary(quality, arguments.seed).items()
        }
        for label, quality in metrics.constant_metrics(counts).items()
    }
    enough = len(human["appropriateness"]) > 0
    return {
        "human": {name: metrics.estimate(values, arguments.seed)._asdict() for name, values in human.items()}
        if enough
        else None,
        "human_minimum_decisions": arguments.minimum_decisions,
        "constants": constants,
    }


def _print(report: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(
        f"{report['split']} split: {report['vignettes']:,} vignettes, each in {report['orders']} evidence orders; "
        f"agent after {report['training']['steps']:,} steps.\n"
        f"Mean [95% bootstrap interval over vignettes]. Clinicians: each judged by the others, on vignettes with "
        f"{report['human_minimum_decisions']} decisions or more.",
        highlight=False,
    )
    table = Table("", "agent", "clinicians", box=box.SIMPLE)
    for metric, estimate in report["agent"].items():
        table.add_row(metric.replace("_", " "), _cell(estimate), _cell((report["human"] or {}).get(metric)))
    console.print(table)
    shown = ("appropriateness", "safety", "over_triage", "under_triage")
    constants = Table("constant policy", *(name.replace("_", " ") for name in shown), box=box.SIMPLE)
    for name, estimates in report["constants"].items():
        constants.add_row(name, *(f"{estimates[metric]['mean']:.3f}" for metric in shown))
    console.print(constants)


def _cell(estimate: dict[str, Any] | None) -> str:
    if estimate is None:
        return "-"
    if estimate["low"] is None:
        return f"{estimate['mean']:.3f}"
    return f"{estimate['mean']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]"

"""Compares hyper-parameters by cross-validation inside the training split: the measurement behind the defaults.

    python benchmarks/tune.py --data DIR --trial --trial learning_rate=1e-4 --trial learning_rate=1e-4 batch_size=200 \\
        --folds 3 --steps 5000 10000 20000 --results FILE

Each `--trial` is a set of hyper-parameters that differ from the defaults, by the names of `triage train --help`. Each
is trained on all folds but one of the training split and judged on that one, after each number of steps; the test split
is never read. Every run is a line of the results file; runs that stand there already are not repeated, so that an
interrupted search goes on where it was. `--peers` measures who sees all evidence on the same folds.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import typing
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from schemas.triage import NUM_DECISIONS
from trainer.config import TrainConfig
from trainer.dyqn.loop import TrainingLoop
from trainer.dyqn.rollout import Rollout, greedy_policy
from trainer.evaluation import metrics
from trainer.evaluation.evaluate import order_seeds
from trainer.state import sparse_states
from trainer.supervised.baselines import fully_observed_metrics
from trainer.supervised.ensemble import EnsembleConfig, train_ensemble
from trainer.supervised.folds import select
from trainer.vignettes.arrays import VignetteArrays
from trainer.vignettes.split import majority
from trainer.vignettes.tfrecord import DataDirectory

if TYPE_CHECKING:  # trainer must be imported before TensorFlow
    import keras

METRICS = ("appropriateness", "safety", "questions", "evidence_seen", "forced")
ORDERS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--trial", nargs="*", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--only", type=int, nargs="+", metavar="FOLD", help="of the folds, from 0; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of training; the folds are always the same")
    parser.add_argument("--steps", type=int, nargs="+", default=[5000, 10_000])
    parser.add_argument("--peers", action="store_true", help="only measure ensemble and clinicians on the same folds")
    parser.add_argument("--results", type=pathlib.Path, required=True, help="JSON Lines; what stands there is kept")
    arguments = parser.parse_args()
    data = DataDirectory.open(arguments.data)
    vignettes = data.read("train")
    folds = assign_folds(vignettes.decision_counts, arguments.folds)
    if arguments.peers:
        for fold in arguments.only or range(arguments.folds):
            parts = (select(vignettes, np.flatnonzero(part)) for part in (folds != fold, folds == fold))
            key = {"data": data.data_fingerprint, "folds": arguments.folds, "fold": fold, "seed": 0, "steps": 0}
            for name, result in peers(*parts, len(data.vocabulary)).items():
                write(arguments.results, {**key, "trial": name, **result})
        arguments.seeds = []
    for seed in arguments.seeds:
        for fold in arguments.only or range(arguments.folds):
            for trial in arguments.trial or [[]]:
                key = {"data": data.data_fingerprint, "folds": arguments.folds, "fold": fold, "seed": seed,
                       "trial": " ".join(sorted(trial)) or "defaults"}  # fmt: skip
                done = {run["steps"] for run in read(arguments.results) if key.items() <= run.items()}
                if not set(arguments.steps) <= done:
                    config = configured(trial, seed)
                    parts = (select(vignettes, np.flatnonzero(part)) for part in (folds != fold, folds == fold))
                    for result in measure(*parts, len(data.vocabulary), config, arguments.steps):
                        write(arguments.results, {**key, **result})
    show(read(arguments.results), data.data_fingerprint)


def assign_folds(decision_counts: np.ndarray, folds: int) -> np.ndarray:
    """Returns the fold of each vignette, int `[V]`, stratified by majority decision; the same for the same data."""
    strata = np.array([majority(counts) for counts in decision_counts.tolist()])
    assigned = np.empty(len(strata), int)
    generator = np.random.default_rng(0)
    for stratum in range(NUM_DECISIONS):
        members = generator.permutation(np.flatnonzero(strata == stratum))
        assigned[members] = np.arange(len(members)) % folds
    return assigned


def configured(trial: list[str], seed: int) -> TrainConfig:
    """Returns the defaults with the trial's hyper-parameters; values are JSON, or words."""
    sections: dict[str, dict[str, Any]] = {"loop": {"seed": seed}}
    for assignment in trial:
        name, _, text = assignment.partition("=")
        for section in dataclasses.fields(TrainConfig):
            if name in {field.name for field in dataclasses.fields(typing.cast(type, section.type))}:
                try:
                    value = json.loads(text)
                except ValueError:
                    value = text
                sections.setdefault(section.name, {})[name] = value
                break
        else:
            raise SystemExit(f"{assignment}: no hyper-parameter of this name: see triage train --help")
    return TrainConfig.from_dict(sections, "--trial")


def measure(
    train: VignetteArrays, held_out: VignetteArrays, codes: int, config: TrainConfig, steps: list[int]
) -> list[dict[str, Any]]:
    """Trains once; returns the metrics on both parts after each number of steps."""
    loop = TrainingLoop(train, codes, config)
    policy = greedy_policy(loop.network)
    limit = config.environment.max_questions
    parts = {"held_out": (held_out, ORDERS), "train": (train, 1)}
    rollouts = {name: Rollout(part, codes, limit, policy) for name, (part, _) in parts.items()}
    runs = []
    for until in sorted(steps):
        loop.run(until)
        run: dict[str, Any] = {"steps": until}
        for name, (part, orders) in parts.items():
            outcomes = rollouts[name].run(order_seeds(0, orders))
            values = metrics.agent_metrics(outcomes, part.decision_counts)
            run[name] = {metric: float(values[metric].mean()) for metric in METRICS}
            run[name] |= with_all_evidence(loop.network, part, codes)
        Console(stderr=True).print(run)
        runs.append(run)
    return runs


def peers(train: VignetteArrays, held_out: VignetteArrays, codes: int) -> dict[str, dict[str, Any]]:
    """Returns the metrics of those who see all evidence: the ensemble of the paper's appendix, and the clinicians."""
    groups = np.arange(len(train.decision_counts))
    ensemble = train_ensemble(sparse_states(train, codes), train.decision_counts, groups, EnsembleConfig())
    results: dict[str, dict[str, Any]] = {"the ensemble": {}, "the clinicians": {}}
    for name, part in {"held_out": held_out, "train": train}.items():
        seen = {"questions": 0.0, "evidence_seen": float(np.diff(part.offsets).mean()), "forced": 0.0}
        for who, quality in zip(
            results,
            (
                fully_observed_metrics(ensemble.triage_values, part, codes),
                metrics.human_metrics(part.decision_counts),
            ),
            strict=True,
        ):
            shares = {metric: float(quality[metric].mean()) for metric in ("appropriateness", "safety")}
            results[who][name] = {**shares, **seen}
    return results


def with_all_evidence(network: "keras.Model", vignettes: VignetteArrays, codes: int) -> dict[str, float]:
    """Returns the quality of the triage that the network would give if it saw everything."""
    q_values = network.predict(sparse_states(vignettes, codes).toarray(), batch_size=1024, verbose=0)
    quality = metrics.triage_quality(q_values[None, :, :NUM_DECISIONS].argmax(axis=-1), vignettes.decision_counts)
    return {f"full_{name}": float(quality[name].mean()) for name in ("appropriateness", "safety")}


def read(results: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def write(results: pathlib.Path, run: dict[str, Any]) -> None:
    with results.open("a") as file:
        file.write(json.dumps(run) + "\n")


def show(runs: list[dict[str, Any]], data: str) -> None:
    """Prints mean and standard deviation over folds and seeds: of held-out vignettes, and the last one of training."""
    table = Table("hyper-parameters", "steps", "runs", *(name.replace("_", " ") for name in METRICS), "training")
    runs = [run for run in runs if run["data"] == data]
    for trial, steps in sorted({(run["trial"], run["steps"]) for run in runs}):
        finished = [run for run in runs if (run["trial"], run["steps"]) == (trial, steps)]
        cells = [_spread([run["held_out"][name] for run in finished]) for name in METRICS]
        training = _spread([run["train"]["appropriateness"] for run in finished])
        table.add_row(trial, f"{steps:,}", str(len(finished)), *cells, training)
    Console().print(table)


def _spread(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


if __name__ == "__main__":
    main()

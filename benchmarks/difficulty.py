"""Measures how hard a data directory is: the paper's calibrated classifier ensemble on full evidence.

    python benchmarks/difficulty.py DIR [DIR ...] [--logistic] --json FILE

The soft-voting ensemble of the paper's appendix, each member calibrated isotonically, is trained on all evidence of the
training vignettes, one row per decision, and judged by the clinicians' decisions on the test split and on the training
split. The paper's figures are .86 and .94 (test), and about .95 (appropriateness, training). `--logistic` uses only one
of its members: seconds instead of minutes, to compare data directories. Needs scikit-learn (the extra `dev`).
"""

import argparse
import pathlib
import statistics
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from trainer.evaluation.metrics import triage_quality
from trainer.state import sparse_states
from trainer.supervised.ensemble import MEMBERS, EnsembleConfig, train_ensemble
from trainer.vignettes.tfrecord import DataDirectory
from triage_runtime.command_line import figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, nargs="+")
    parser.add_argument("--logistic", action="store_true")
    figures.add_argument(parser)
    arguments = parser.parse_args()
    runs = []
    for path in arguments.data:
        runs.append({"data": str(path), **measure(DataDirectory.open(path), arguments.logistic)})
        Console(stderr=True).print(runs[-1])
    show(runs)
    figures.write({"runs": runs}, arguments.json)


def measure(data: DataDirectory, logistic: bool) -> dict[str, Any]:
    """Returns appropriateness and safety of the classifier, by split."""
    train = data.read("train")
    states = sparse_states(train, len(data.vocabulary))
    config = EnsembleConfig(("logistic",) if logistic else MEMBERS, calibrated=not logistic)
    ensemble = train_ensemble(states, train.decision_counts, np.arange(states.shape[0]), config)
    shares: dict[str, Any] = {}
    for split in ("test", "train"):
        arrays = data.read(split)
        chosen = ensemble.triage_values(sparse_states(arrays, len(data.vocabulary))).argmax(axis=1)
        quality = triage_quality(chosen[None, :], arrays.decision_counts)
        shares |= {f"{split}_{name}": float(quality[name].mean()) for name in ("appropriateness", "safety")}
    return shares


def show(runs: list[dict[str, Any]]) -> None:
    names = [name for name in runs[0] if name != "data"]
    table = Table(title="Classifier on full evidence")
    for heading in ("data", *names):
        table.add_column(heading)
    for run in runs:
        table.add_row(run["data"], *(f"{run[name]:.3f}" for name in names))
    if len(runs) > 1:
        columns = [[run[name] for run in runs] for name in names]
        table.add_row("mean (SD)", *(f"{statistics.mean(c):.3f} ({statistics.stdev(c):.3f})" for c in columns))
    table.add_row("paper", "0.86", "0.94", "0.95", "")
    Console().print(table)


if __name__ == "__main__":
    main()

"""Draws what policies of questions are worth, from several `triage evaluate --questions ... --json FILE`.

    for seed in 21 22 23; do
        triage simulate --whole-patient --vignettes 12480 --test-fraction 0.2 --seed $seed --out whole$seed
        triage train --data whole$seed --job-dir job$seed
        triage evaluate --data whole$seed --job-dir job$seed --track whole-patient --json questions$seed.json \\
            --questions learned static random prevalence uncertainty naive-bayes clairvoyant
    done
    python benchmarks/questions.py questions21.json questions22.json questions23.json --plot questions.png

The table has the mean over the files of each policy after each number of questions, and after how many questions the
learned policy first is as good as the static order is after ten.
"""

import argparse
import json
import pathlib
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt

QUALITY = ("appropriateness", "safety")
LEARNED, STATIC = "learned", "static"
AFTER = 10


def main() -> None:
    """Prints the table, and draws the plot where one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    arguments = parser.parse_args()
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.files]
    shared = [name for name in reports[0]["policies"] if all(name in report["policies"] for report in reports)]
    means = {name: {metric: _means(reports, name, metric) for metric in QUALITY} for name in shared}
    for name, by_metric in means.items():
        pairs = zip(*by_metric.values(), strict=True)
        cells = (f"{number}: {app:.3f}/{safe:.3f}" for number, (app, safe) in enumerate(pairs))
        sys.stdout.write(f"{name:12} {'  '.join(cells)}\n")
    if LEARNED in means and STATIC in means:
        sys.stdout.write(f"{_as_good(means)}\n")
    if arguments.plot:
        _draw(means, len(reports), arguments.plot)


def _means(reports: Sequence[dict[str, Any]], policy: str, metric: str) -> list[float]:
    """Returns the mean over training sets after each number of questions."""
    rows = [[estimate["mean"] for estimate in report["policies"][policy][metric]] for report in reports]
    return [statistics.fmean(column) for column in zip(*rows, strict=True)]


def _as_good(means: dict[str, dict[str, list[float]]]) -> str:
    goals = {metric: means[STATIC][metric][min(AFTER, len(means[STATIC][metric]) - 1)] for metric in QUALITY}
    reached = [
        next((str(number) for number, mean in enumerate(means[LEARNED][metric]) if mean >= goals[metric]), "never")
        for metric in QUALITY
    ]
    return f"learned is as good as static after {AFTER} questions: appropriateness {reached[0]}, safety {reached[1]}"


def _draw(means: dict[str, dict[str, list[float]]], sets: int, path: pathlib.Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharex=True)
    for axis, metric in zip(axes, QUALITY, strict=True):
        for name, by_metric in means.items():
            axis.plot(by_metric[metric], label=name, linewidth=2.5 if name == LEARNED else 1.2)
        axis.set(xlabel="questions", title=f"{metric}, mean of {sets} training set{'s' if sets > 1 else ''}")
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()

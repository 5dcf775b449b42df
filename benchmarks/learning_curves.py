"""Overlays the learning curves of the learner's engines and precisions.

    python benchmarks/learning_curves.py --data DIR --results curves.jsonl --plot docs/learning_curves.png

Each seed trains once with each learner, from the same weights and on the same random draws as long as their decisions
are the same, and is evaluated on the test split every few hundred steps, as `triage evaluate` does it. An interrupted
run can be continued. The table on standard output is Markdown: the last evaluation of each seed, and the difference of
each learner from the plain one, beside the differences between seeds of the plain one.
"""

import argparse
import json
import pathlib
import statistics
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from rich.console import Console

from trainer.config import TrainConfig
from trainer.dyqn.loop import TrainingLoop
from trainer.dyqn.rollout import Rollout
from trainer.evaluation import metrics
from trainer.evaluation.measurement import order_seeds
from trainer.vignettes.tfrecord import DataDirectory

LEARNERS: dict[str, dict[str, str]] = {
    "plain": {"engine": "plain"},
    "fused": {"engine": "fused"},
    "fused, bfloat16": {"engine": "fused", "precision": "bfloat16"},
}
COLOURS = {"plain": "#444444", "fused": "#1f77b4", "fused, bfloat16": "#d9541a"}
METRICS = ("appropriateness", "safety", "questions")
ORDERS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--every", type=int, default=250, help="steps between evaluations")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--results", type=pathlib.Path, required=True, help="JSON Lines; existing lines are kept")
    parser.add_argument("--plot", type=pathlib.Path, help="PNG to write")
    arguments = parser.parse_args()
    data = DataDirectory.open(arguments.data)
    for seed in arguments.seeds:
        for name in LEARNERS:
            key = {"data": data.data_fingerprint, "learner": name, "seed": seed, "steps": arguments.steps}
            if not any(key.items() <= run.items() for run in read(arguments.results)):
                points = curve(data, seed, name, arguments.steps, arguments.every)
                with arguments.results.open("a") as file:
                    file.write(json.dumps({**key, "points": points}) + "\n")
    keys = {"data": data.data_fingerprint, "steps": arguments.steps}
    runs = [run for run in read(arguments.results) if keys.items() <= run.items() and run["seed"] in arguments.seeds]
    print(table(runs))
    if arguments.plot:
        plot(runs, arguments.plot)


def curve(data: DataDirectory, seed: int, name: str, steps: int, every: int) -> list[dict[str, float]]:
    """Returns the figures of each evaluation of a run."""
    config = TrainConfig.from_dict({"learner": LEARNERS[name], "loop": {"seed": seed}})
    test = data.read("test")
    loop = TrainingLoop(data.read("train"), len(data.vocabulary), config)
    rollout = Rollout(test, len(data.vocabulary), config.environment.max_questions, loop.agent.policy)
    points = []
    for step in [*range(every, steps, every), steps]:
        done = loop.run(step)
        values = metrics.agent_metrics(rollout.run(order_seeds(0, ORDERS)), test.decision_counts)
        points.append({"step": step, "loss": done.loss, **{metric: float(values[metric].mean()) for metric in METRICS}})
    Console(stderr=True).print(f"seed {seed}, {name}: {points[-1]}", highlight=False)
    return points


def read(results: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def table(runs: list[dict[str, Any]]) -> str:
    """Returns the last points as Markdown, with the largest difference from the plain learner with the same seed."""
    last = {(run["learner"], run["seed"]): run["points"][-1] for run in runs}
    seeds = sorted({seed for _, seed in last})
    lines = [
        "| learner | metric | "
        + " | ".join(f"seed {seed}" for seed in seeds)
        + " | mean | SD | from plain, mean (largest) |"
    ]
    lines.append("| --- " * (len(seeds) + 5) + "|")
    for name in LEARNERS:
        for metric in METRICS:
            values = [last[name, seed][metric] for seed in seeds]
            apart = [value - last["plain", seed][metric] for value, seed in zip(values, seeds, strict=True)]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            cells = [f"{value:.3f}" for value in values]
            far = f"{statistics.mean(apart):+.3f} ({max(map(abs, apart)):.3f})"
            lines.append(
                f"| {name} | {metric} | {' | '.join(cells)} | {statistics.mean(values):.3f} | {spread:.3f} | {far} |"
            )
    return "\n".join(lines)


def plot(runs: list[dict[str, Any]], path: pathlib.Path) -> None:
    """Draws every run as a thin line and the mean over seeds as a thick one."""
    figure, axes = plt.subplots(1, len(METRICS), figsize=(13, 4), layout="constrained")
    for axis, metric in zip(axes, METRICS, strict=True):
        for name in LEARNERS:
            curves = [[point[metric] for point in run["points"]] for run in runs if run["learner"] == name]
            steps = [point["step"] for point in next(run for run in runs if run["learner"] == name)["points"]]
            for values in curves:
                axis.plot(steps, values, color=COLOURS[name], linewidth=0.6, alpha=0.5)
            means = [statistics.mean(column) for column in zip(*curves, strict=True)]
            axis.plot(steps, means, color=COLOURS[name], linewidth=2.2, label=f"{name}: mean")
        axis.set(xlabel="step", title=f"{metric}, test split")
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()

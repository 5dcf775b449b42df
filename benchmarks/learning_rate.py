"""Compares learning rates on a data directory, over several seeds: the measurement behind the default.

    python benchmarks/learning_rate.py --data DIR --rates 1e-4 1e-3 --seeds 3 --steps 4000 --json FILE

Each run trains a fresh agent and evaluates it on the test split at the end. The table shows the mean over the seeds
and their standard deviation; every single run is in the JSON file.
"""

import argparse
import dataclasses
import pathlib
import statistics
from typing import Any

from rich.console import Console
from rich.table import Table

from schemas import figures
from trainer.config import TrainConfig
from trainer.evaluate import evaluate_network
from trainer.loop import TrainingLoop
from trainer.tfrecord import DataDirectory

METRICS = ("appropriateness", "safety", "under_triage", "questions", "evidence_seen")
ORDERS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--rates", type=float, nargs="+", default=[3e-5, 1e-4, 3e-4, 1e-3])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4000)
    figures.add_argument(parser)
    arguments = parser.parse_args()
    data = DataDirectory.open(arguments.data)
    runs = []
    for rate in arguments.rates:
        for seed in range(arguments.seeds):
            runs.append(measure(data, rate, seed, arguments.steps))
            Console(stderr=True).print(runs[-1])
    show(runs)
    figures.write({"data_fingerprint": data.data_fingerprint, "steps": arguments.steps, "runs": runs}, arguments.json)


def measure(data: DataDirectory, rate: float, seed: int, steps: int) -> dict[str, Any]:
    """Trains one agent; returns its rate, seed and metrics on the test split."""
    default = TrainConfig()
    config = dataclasses.replace(
        default,
        optimiser=dataclasses.replace(default.optimiser, learning_rate=rate),
        loop=dataclasses.replace(default.loop, seed=seed),
    )
    loop = TrainingLoop(data.read("train"), len(data.vocabulary), config)
    loop.run(steps)
    found = evaluate_network(loop.network, data.read("test"), ORDERS, seed=0)
    return {"rate": rate, "seed": seed, **{name: found[name].mean for name in METRICS}}


def show(runs: list[dict[str, Any]]) -> None:
    table = Table("learning rate", *(name.replace("_", " ") for name in METRICS))
    for rate in dict.fromkeys(run["rate"] for run in runs):
        cells = []
        for name in METRICS:
            values = [run[name] for run in runs if run["rate"] == rate]
            spread = statistics.stdev(values) if len(values) > 1 else float("nan")
            cells.append(f"{statistics.mean(values):.3f} ± {spread:.3f}")
        table.add_row(f"{rate:g}", *cells)
    Console().print(table)


if __name__ == "__main__":
    main()

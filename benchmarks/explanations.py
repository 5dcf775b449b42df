"""Measures whether an explanation names the piece of evidence that a decision rests on.

    python benchmarks/explanations.py --job-dir JOB --data DATA [--other JOB] [--states N] [--seed N] --json FILE

At random moments of interviews about test vignettes, two pieces of evidence or more, the piece with the largest effect
(`trainer.questions.effects`) is left out, and instead of it one of the others at random. The shares tell how often the
former moves the probabilities more, by their mean absolute change, by the largest one, and by Kullback-Leibler
divergence; and how often each of the two changes the decision. By the first measure it cannot be moved less: that share
only counts ties. With `--other` an agent that was trained on other vignettes is asked about the same pieces.
"""

import argparse
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console

from schemas.triage import NUM_DECISIONS
from trainer.evaluation.metrics import estimate
from trainer.questions.effects import effects, leave_one_out
from trainer.questions.policies import divergence
from trainer.runs.job import TrainedNetwork, load_network
from trainer.vignettes.arrays import VignetteArrays
from trainer.vignettes.tfrecord import DataDirectory
from triage_runtime.command_line import figures

_LEAST = 1e-6


def main() -> None:
    """Prints the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job-dir", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--other", type=pathlib.Path)
    parser.add_argument("--states", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    figures.add_argument(parser)
    arguments = parser.parse_args()
    trained, vignettes = load_network(arguments.job_dir), DataDirectory.open(arguments.data).read("test")
    other = load_network(arguments.other) if arguments.other else None
    report = figures.plain(measured(trained, other or trained, vignettes, arguments.states, arguments.seed))
    if arguments.json != "-":
        console = Console(highlight=False)
        for name, share in report.items():
            console.print(f"{name:32} {share['mean']:.3f} [{share['low']:.3f}, {share['high']:.3f}]")
    figures.write(report, arguments.json)


def measured(
    explained: TrainedNetwork, asked: TrainedNetwork, vignettes: VignetteArrays, states: int, seed: int
) -> Mapping[str, Any]:
    """Returns the shares, with their intervals over moments.

    Args:
        explained: the agent whose effects say which piece comes first.
        asked: the agent whose probabilities are to be moved.
        vignettes: of which the moments are.
        states: how many moments; each of another vignette as far as there are enough.
        seed: of the moments, of the other piece, and of the bootstrap.
    """
    generator = np.random.default_rng(seed)
    rows = [
        vignettes.signed_codes[slice(*vignettes.offsets[row : row + 2])] for row in range(len(vignettes.offsets) - 1)
    ]
    rows = [rows[row] for row in generator.permutation(len(rows)) if len(rows[row]) > 1]
    by_name: dict[str, list[float]] = {}
    for number in range(states):
        codes = generator.permutation(rows[number % len(rows)])
        codes = codes[: generator.integers(2, len(codes) + 1)].astype(np.int32)
        for name, value in _compared(codes, explained, asked, generator).items():
            by_name.setdefault(name, []).append(value)
    return {name: estimate(np.array(values), seed) for name, values in by_name.items()}


def _compared(
    codes: np.ndarray, explained: TrainedNetwork, asked: TrainedNetwork, generator: np.random.Generator
) -> dict[str, float]:
    count = len(asked.vocabulary)
    here, without = leave_one_out(codes, count, asked.model)
    moves = _moves(here, without)
    own = moves["mean change"] if explained is asked else effects(codes, count, explained.model)
    top = int(own.argmax())
    random = int(generator.choice([place for place in range(len(codes)) if place != top]))
    turned = _decision(without, asked) != _decision(here[np.newaxis], asked)
    return {
        **{f"more {name}": float(values[top] > values[random]) for name, values in moves.items()},
        "top piece turns the decision": float(turned[top]),
        "another piece turns it": float(turned[random]),
    }


def _moves(here: np.ndarray, without: np.ndarray) -> dict[str, np.ndarray]:
    """Returns how far the probabilities `[T]` move without each piece, `[n, T]`; float `[n]` by each measure."""
    before, after = (np.clip(each, _LEAST, 1 - _LEAST) for each in (here, without))
    change = np.abs(without - here)
    return {
        "mean change": change.mean(axis=1),
        "largest change": change.max(axis=1),
        "divergence": divergence(before, after).sum(axis=1),
    }


def _decision(said: np.ndarray, trained: TrainedNetwork) -> np.ndarray:
    """Returns the triage decision, int `[n]`, on probabilities `[n, 8]`, or Q-values `[n, 4]`."""
    weight = trained.dial.safety_weight if said.shape[1] > NUM_DECISIONS else 0.0
    return np.asarray((said[:, :NUM_DECISIONS] + weight * said[:, -NUM_DECISIONS:]).argmax(axis=1))


if __name__ == "__main__":
    main()

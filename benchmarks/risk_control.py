"""Does `triage export --under-triage-at-most` keep its bound? Splits vignettes many times, without new training.

    python benchmarks/risk_control.py --job-dir job --data data

Each time, the operating point is chosen on one half of the test split, in place of the held-out vignettes, and
under-triage is measured on the other half. The bound holds in expectation, so the mean over the splits should keep it.
"""

import argparse
import json
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trainer.decision.operating_point import WEIGHTS, HeldOutOutputs, least_point, quality, with_price
from trainer.evaluation.frontier import RecordedTriage
from trainer.evaluation.prefixes import metrics_by_evidence
from trainer.training.job import load_network
from trainer.vignettes.tfrecord import DataDirectory

BOUNDS = (0.02, 0.05, 0.1)
SPLITS = 200


class Kept(NamedTuple):
    """Under-triage on the halves that did not choose the operating point."""

    bound: float
    mean: float
    above: float  # share of the splits in which it is above the bound
    over_triage: float
    mean_weight: float


def resplit(outputs: HeldOutOutputs, bounds: Sequence[float], splits: int, seed: int) -> list[Kept]:
    """Returns the under-triage for each bound over random halves of vignettes.

    Raises:
        InputError: a bound cannot be reached on some half.
    """
    generator = np.random.default_rng(seed)
    count = len(outputs.sizes)
    rows = []
    for _ in range(splits):
        chosen = generator.permutation(count) < count // 2
        choosing, judged = part(outputs, chosen), part(outputs, ~chosen)
        points = [with_price(choosing, weight) for weight in WEIGHTS]
        for bound in bounds:
            point = least_point(choosing, bound, points)
            reached = quality(judged, point)
            rows.append((1 - reached.safety, reached.over_triage, point.safety_weight))
    rates = np.array(rows).reshape(splits, len(bounds), 3)
    return [
        Kept(bound, float(under.mean()), float((under > bound).mean()), float(over.mean()), float(weights.mean()))
        for bound, (under, over, weights) in zip(bounds, rates.transpose(1, 2, 0), strict=True)
    ]


def part(outputs: HeldOutOutputs, chosen: np.ndarray) -> HeldOutOutputs:
    """Returns the vignettes that `chosen`, bool `[M]`, selects."""
    return HeldOutOutputs(
        outputs.outputs[np.repeat(chosen, outputs.sizes)], outputs.sizes[chosen], outputs.decision_counts[chosen]
    )


def outputs_of(job_dir: pathlib.Path, data: pathlib.Path, seed: int) -> HeldOutOutputs:
    """Returns the outputs of the agent of a job directory on the test split, in one random evidence order."""
    trained = load_network(job_dir)
    vignettes = DataDirectory.open(data).read("test")
    triage = RecordedTriage(trained.model, trained.operating_point)
    metrics_by_evidence(vignettes, len(trained.vocabulary), triage, [seed], seed)
    outputs = triage.outputs(orders=1)
    if outputs is None:
        raise SystemExit(f"{job_dir}: a network without probabilities: train with --preset default")
    return HeldOutOutputs(outputs[0], np.diff(vignettes.offsets), vignettes.decision_counts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a line of JSON for each bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job-dir", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--bounds", type=float, nargs="+", default=BOUNDS)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    outputs = outputs_of(given.job_dir, given.data, given.seed)
    for kept in resplit(outputs, given.bounds, given.splits, given.seed):
        print(json.dumps(kept._asdict()))


if __name__ == "__main__":
    main()

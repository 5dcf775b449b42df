"""The vignettes that all contestants play: random ones, with as many pieces of evidence as the paper's.

Speed does not depend on the meaning of evidence. They are in a file, so that a contestant in another Python environment
can read them.
"""

import pathlib
from typing import NamedTuple

import numpy as np


class BenchVignettes(NamedTuple):
    """V vignettes in compressed sparse rows, see `trainer.dyqn.environment.Vignettes`."""

    offsets: np.ndarray  # int64 [V + 1]
    signed_codes: np.ndarray  # int32
    decision_counts: np.ndarray  # uint8 [V, 4]


def draw(vignettes: int, evidence_count: int, seed: int) -> BenchVignettes:
    """Returns V random vignettes over E codes with 1 to 17 pieces of evidence, 7.3 on average, and three decisions."""
    generator = np.random.default_rng(seed)
    counts = np.clip(generator.poisson(7.25, vignettes), 1, min(17, evidence_count))
    rows = [generator.choice(evidence_count, count, replace=False) + 1 for count in counts]
    codes = np.concatenate([row * generator.choice([-1, 1], len(row), p=[0.2, 0.8]) for row in rows])
    decisions = generator.multinomial(3, [0.08, 0.32, 0.5, 0.1], vignettes)
    return BenchVignettes(np.concatenate([[0], counts.cumsum()]), codes.astype(np.int32), decisions.astype(np.uint8))


def save(path: pathlib.Path, vignettes: BenchVignettes) -> None:
    """Writes the vignettes for `load`."""
    np.savez(path, **vignettes._asdict())


def load(path: pathlib.Path) -> BenchVignettes:
    """Returns what `save` wrote."""
    with np.load(path) as arrays:
        return BenchVignettes(**{name: arrays[name] for name in BenchVignettes._fields})

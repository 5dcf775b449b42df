"""The vignettes of the contestants, in a file, so that one in another Python environment can read them."""

import pathlib
from typing import NamedTuple

import numpy as np


class BenchVignettes(NamedTuple):
    """V vignettes in compressed sparse rows, see `trainer.dyqn.environment.Vignettes`."""

    offsets: np.ndarray  # int64 [V + 1]
    signed_codes: np.ndarray  # int32
    decision_counts: np.ndarray  # uint8 [V, 4]


def save(path: pathlib.Path, vignettes: BenchVignettes) -> None:
    """Writes the vignettes for `load`."""
    np.savez(path, **vignettes._asdict())


def load(path: pathlib.Path) -> BenchVignettes:
    """Returns what `save` wrote."""
    with np.load(path) as arrays:
        return BenchVignettes(**{name: arrays[name] for name in BenchVignettes._fields})

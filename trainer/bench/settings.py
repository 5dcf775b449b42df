"""What the other libraries get: the vignettes in a file, which another Python environment can read, and settings.

Network, batch and step size are as in our preset, as far as a library supports that. All have ReLU layers and Adam.
"""

import dataclasses
import json
import pathlib
from typing import NamedTuple

import numpy as np


class BenchVignettes(NamedTuple):
    """V vignettes in compressed sparse rows, see `trainer.vignettes.state.Vignettes`."""

    offsets: np.ndarray  # int64 [V + 1]
    signed_codes: np.ndarray  # int32
    decision_counts: np.ndarray  # uint8 [V, 4]


def save_vignettes(path: pathlib.Path, vignettes: BenchVignettes) -> None:
    """Writes the vignettes for `load_vignettes`."""
    np.savez(path, **vignettes._asdict())


def load_vignettes(path: pathlib.Path) -> BenchVignettes:
    """Returns what `save_vignettes` wrote."""
    with np.load(path) as arrays:
        return BenchVignettes(**{name: arrays[name] for name in BenchVignettes._fields})


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of one contestant."""

    vignettes: str  # file of `save_vignettes`
    evidence_count: int
    hidden_sizes: tuple[int, ...] = (256, 256)
    batch_size: int = 128
    learning_rate: float = 0.001
    memory_capacity: int = 50_000
    burn_in_steps: int = 1000
    max_questions: int = 23
    seed: int = 0

    def to_json(self) -> str:
        """Returns what `from_json` reads."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """Returns the settings of `to_json`."""
        values = json.loads(text)
        return cls(**{**values, "hidden_sizes": tuple(values["hidden_sizes"])})

    def read_vignettes(self) -> BenchVignettes:
        """Returns the vignettes of the file."""
        return load_vignettes(pathlib.Path(self.vignettes))

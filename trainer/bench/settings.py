"""The settings of the other libraries: network, batch and step size as in our preset, as far as they support it.

All have ReLU layers and Adam.
"""

import dataclasses
import json
import pathlib

from trainer.bench.task_vignettes import BenchVignettes, load


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of one contestant."""

    vignettes: str  # file of `task_vignettes.save`
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
        return load(pathlib.Path(self.vignettes))

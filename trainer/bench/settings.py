"""The settings that all contestants share: network, batch, optimiser and memory."""

import dataclasses
import json
import pathlib

from trainer.bench.task_vignettes import BenchVignettes, load


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of one comparison."""

    vignettes: str  # file of `task_vignettes.save`
    evidence_count: int = 597
    hidden_sizes: tuple[int, ...] = (1024, 1024)
    batch_size: int = 100
    activation: str = "selu"  # or relu
    algorithm: str = "sgd"
    learning_rate: float = 0.02
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

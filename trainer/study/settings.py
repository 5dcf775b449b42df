"""The size of the study, without loading TensorFlow."""

import dataclasses

from schemas.errors import InputError
from trainer.config import TrainConfig

CONVERGED = 10
"""Maximum number of evaluations at the end of training to average, as in the paper's table (tab:performance_test)."""
CONVERGED_PART = 4
"""With few evaluations, only the last 1 / CONVERGED_PART of them are averaged."""


@dataclasses.dataclass(frozen=True)
class StudySettings:
    """The size of the study."""

    seeds: int  # trainings of each learning agent
    folds: int  # 0 means no cross-validation
    fold_seeds: int  # repetitions of the cross-validation
    powerset_rows: int  # rows of D_pow, at most, to train an ensemble on
    config: TrainConfig  # of the learning agents; its seed is the first one

    def __post_init__(self) -> None:
        for name, least in (("seeds", 1), ("folds", 0), ("fold_seeds", 1), ("powerset_rows", 100)):
            if getattr(self, name) < least:
                raise InputError(f"--{name.replace('_', '-')} {getattr(self, name)}: expected {least} or more")
        if self.folds == 1:
            raise InputError("--folds 1: expected 2 or more, or 0 for no cross-validation")
        if not self.config.loop.evaluation_interval:
            raise InputError("--evaluation-interval 0: the study needs evaluations: expected 1 or more")

    @property
    def converged(self) -> int:
        """Number of evaluations at the end of training that count as those of the trained agent."""
        loop = self.config.loop
        evaluations = -(-loop.steps // loop.evaluation_interval)
        return max(1, min(CONVERGED, evaluations // CONVERGED_PART))

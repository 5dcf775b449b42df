"""Our training loop as a contestant: `python -m trainer.bench.ours SETTINGS LEARNER`, the last two as JSON."""

import json
import sys
from collections.abc import Callable, Mapping

from trainer.bench import worker
from trainer.bench.settings import Settings
from trainer.config import TrainConfig
from trainer.dyqn.loop import TrainingLoop


def steps_of(settings: Settings, learner: Mapping[str, str]) -> Callable[[int], None]:
    """Returns a function that takes training steps after the burn-in; `learner` holds fields of `LearnerConfig`."""
    config = TrainConfig.from_dict(
        {
            "environment": {"max_questions": settings.max_questions},
            "network": {"hidden_sizes": list(settings.hidden_sizes)},
            "memory": {"batch_size": settings.batch_size, "memory_capacity": settings.memory_capacity},
            "optimiser": {"algorithm": settings.algorithm, "learning_rate": settings.learning_rate},
            "learner": dict(learner),
            "loop": {"burn_in_steps": settings.burn_in_steps, "seed": settings.seed},
        }
    )
    loop = TrainingLoop(settings.read_vignettes(), settings.evidence_count, config)
    loop.run(settings.burn_in_steps)
    return lambda steps: loop.run(loop.step + steps) and None


def main() -> None:
    """Answers until standard input ends."""
    settings, learner = Settings.from_json(sys.argv[1]), json.loads(sys.argv[2])
    worker.answer(worker.timed(steps_of(settings, learner)))


if __name__ == "__main__":
    main()

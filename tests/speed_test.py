"""The learner stays as far ahead of TF-Agents' own loop as it was when docs/performance.md was written."""

import pytest

from trainer.bench import contestants, task_vignettes, train_report
from trainer.bench.settings import Settings

RECORDED = 2.0
"""Speed of the fused learner over TF-Agents' faster form, batch 100, in docs/performance.md. A ratio taken round by
round, never a time: it holds on any load, within what rounds differ."""
ROUNDS, STEPS = 7, 40


@pytest.mark.learning
def test_the_ratio_to_tf_agents_has_not_fallen_by_more_than_a_quarter(tmp_path):
    task_vignettes.save(tmp_path / "v.npz", task_vignettes.draw(1_248, 597, seed=0))
    settings = Settings(str(tmp_path / "v.npz"))
    commands = contestants.commands(settings)
    answers = contestants.compete(commands, STEPS, ROUNDS)
    speed = train_report.report(settings, STEPS, answers)["contestants"]["ours: fused"]["speed_over"]["tf_agents"]
    assert speed["median"] >= 0.75 * RECORDED, speed

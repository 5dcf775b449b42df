"""The learner stays as far ahead of TF-Agents' own loop as it was when docs/performance.md was written."""

import pathlib

import pytest

from trainer.bench import contestants, report, task_vignettes
from trainer.bench.settings import Settings

RECORDED = {"ours: fused": 1.5, "ours: fused, bfloat16": 1.9}
"""Speed over TF-Agents' faster form at batch 100, from docs/performance.md. A ratio taken round by round, never a time:
it holds on any load, within what rounds differ."""
BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16"}
ROUNDS, STEPS = 7, 40


@pytest.mark.slow
def test_the_ratio_to_tf_agents_has_not_fallen_by_more_than_a_quarter(tmp_path):
    task_vignettes.save(tmp_path / "v.npz", task_vignettes.draw(1_248, 597, seed=0))
    settings = Settings(str(tmp_path / "v.npz"))
    answers = contestants.compete(contestants.commands(settings), STEPS, ROUNDS)
    measured = report.report(settings, STEPS, answers)["contestants"]
    speeds = {name: measured[name]["speed_over"]["tf_agents"]["median"] for name in RECORDED}
    guarded = [name for name in RECORDED if "bfloat16" not in name or multiplies_bfloat16()]
    assert all(speeds[name] >= 0.75 * RECORDED[name] for name in guarded), speeds


def multiplies_bfloat16():
    """Whether the processor has instructions for it; without them it is no faster."""
    described = pathlib.Path("/proc/cpuinfo")
    return described.exists() and bool(BFLOAT16_FLAGS & set(described.read_text().split()))

"""That a long run holds its memory flat: the command of docs/performance.md, on fewer steps."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEPS = 40_000


@pytest.mark.learning
@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_memory_does_not_grow_with_the_steps(tmp_path):
    data, report = tmp_path / "data", tmp_path / "report.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "proto")])}
    for command in (
        ["triage_cli.py", "simulate", "--out", data],
        ["benchmarks/endurance.py", "--data", data, "--steps", STEPS, "--json", report],
    ):
        subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, env=environment, check=True, timeout=550)
    found = json.loads(report.read_text())
    assert found["steps"] == STEPS
    assert len(found["noted"]) >= STEPS / 200
    # One scalar tensor kept for each step would be some 200 bytes a step, one kept transition more.
    assert found["bytes_per_step"] < 150

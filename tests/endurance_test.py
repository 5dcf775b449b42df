"""That a long run holds its memory flat: the command of docs/performance.md, on fewer steps."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEPS = 40_000


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_memory_does_not_grow_with_the_steps(tmp_path):
    data, report = tmp_path / "data", tmp_path / "report.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "proto")])}
    for command in (
        ["triage_cli.py", "simulate", "--out", data],
        ["benchmarks/endurance.py", "--data", data, "--steps", STEPS, "--json", report],
    ):
        subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, env=environment, check=True, timeout=1400)
    written = json.loads(report.read_text())
    assert written["steps"] == STEPS
    assert len(written["noted"]) >= STEPS / 200
    # The allocator settles by some 100 bytes a step in so short a run; a tensor kept for each would be 500 and more.
    assert written["bytes_per_step"] < 400

"""A server under load does not grow in memory: the command of docs/speed.md, with a new version each second."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_memory_does_not_grow_with_calls_and_versions(model_base_path, tmp_path):
    report = tmp_path / "report.json"
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT}/proto:{ROOT}/clients/python",
    }
    options = ["--model-base-path", model_base_path, "--seconds", 240, "--swap-seconds", 1, "--json", report]
    command = [sys.executable, "benchmarks/soak.py", *map(str, options)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=550)
    written = json.loads(report.read_text())
    assert written["versions"] > 60
    assert set(written["calls"]) == {"answered", "refused", "cancelled"}
    assert min(written["calls"].values()) > 100
    # Sixty versions load per minute. A version that stays in memory takes megabytes; even 80 kB each would be too much.
    assert written["least_megabytes_per_minute"] < 5

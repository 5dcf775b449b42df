"""A server under load does not grow in memory: the command of docs/speed.md, with a new version each second."""

import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_memory_does_not_grow_with_calls_and_versions(python, model_base_path, tmp_path):
    report = tmp_path / "report.json"
    options = ["--model-base-path", model_base_path, "--seconds", 240, "--swap-seconds", 1, "--json", report]
    finished = python.run("benchmarks/soak.py", *map(str, options), cwd=ROOT, timeout=550)
    assert finished.returncode == 0, finished.stderr
    written = json.loads(report.read_text())
    assert written["versions"] > 60
    assert set(written["calls"]) == {"answered", "refused", "cancelled"}
    assert min(written["calls"].values()) > 100
    # Sixty versions load per minute. A version that stays in memory takes megabytes; even 80 kB each would be too much.
    assert written["least_megabytes_per_minute"] < 5

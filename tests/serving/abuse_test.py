"""benchmarks/abuse.py runs: an attack over plain text, and one over TLS whose small calls open connections."""

import json
import pathlib
import shutil

import pytest

ROOT = pathlib.Path(__file__).parents[2]
WATCHES = "100 connections of 128 Watches of health"
HANDSHAKES = "1,500 TLS handshakes left open, calls on new connections"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the program openssl")
def test_small_calls_are_measured_during_an_attack(python, model_base_path, tmp_path):
    report = tmp_path / "report.json"
    options = ["--model-base-path", model_base_path, "--seconds", 2, "--json", report, "--only", WATCHES, HANDSHAKES]
    finished = python.run("benchmarks/abuse.py", *map(str, options), cwd=ROOT, timeout=1000)
    assert finished.returncode == 0, finished.stderr
    rows = json.loads(report.read_text())["rows"]
    assert set(rows) == {WATCHES, HANDSHAKES}
    assert min(row["calls"] for row in rows.values()) > 0
    assert all(row["p50_ms"] <= row["p99_ms"] <= row["longest_ms"] for row in rows.values())
    assert rows[WATCHES]["failed"] == 0
    assert rows[WATCHES]["ended"]["RESOURCE_EXHAUSTED"] > 0  # most of 12,800

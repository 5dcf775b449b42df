"""The benchmarks of a server run, and their reports say what was measured."""

import json
import pathlib
import shutil

import pytest

from benchmarks import serve

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="needs Linux's /proc"),
]
ROOT = pathlib.Path(__file__).parents[2]
WATCHES = "100 connections of 128 Watches of health"
HANDSHAKES = "1,500 TLS handshakes left open, calls on new connections"


@pytest.fixture
def run(python, model_base_path):
    """Runs a benchmark on the hand-set model."""

    def run(name, *options):
        given = ["--model-base-path", model_base_path, *options]
        finished = python.run(f"benchmarks/{name}.py", *map(str, given), cwd=ROOT, timeout=1000)
        assert finished.returncode == 0, finished.stderr

    return run


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the program openssl")
def test_small_calls_are_measured_during_an_attack(run, tmp_path):
    run("abuse", "--seconds", 2, "--json", tmp_path / "report.json", "--only", WATCHES, HANDSHAKES)
    rows = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert set(rows) == {WATCHES, HANDSHAKES}
    assert min(row["calls"] for row in rows.values()) > 0
    assert all(row["p50_ms"] <= row["p99_ms"] <= row["longest_ms"] for row in rows.values())
    assert rows[WATCHES]["failed"] == 0
    assert rows[WATCHES]["ended"]["RESOURCE_EXHAUSTED"] > 0  # most of 12,800


def test_memory_does_not_grow_with_calls_and_versions(run, tmp_path):
    run("soak", "--seconds", 240, "--swap-seconds", 1, "--json", tmp_path / "report.json")
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["versions"] > 60
    assert set(written["calls"]) == {"answered", "refused", "cancelled"}
    assert min(written["calls"].values()) > 100
    # Sixty versions load per minute. A version that stays in memory takes megabytes; even 80 kB each would be too much.
    assert written["least_megabytes_per_minute"] < 5


def test_the_server_is_measured_beside_the_empty_handler(run, tmp_path):
    run("serve", "--rounds", 1, "--seconds", 0.1, "--results", tmp_path)
    figures = json.loads((tmp_path / "serve.json").read_text())["figures"]
    assert [row["in_progress"] for row in figures["decisions"]] == sorted(serve.LEVELS)
    # The tiny model chooses no questions and refuses to be asked for them, which counts as failed.
    assert all(row["failed"] for row in figures["questions"])
    assert not any(row["failed"] for row in figures["decisions"])

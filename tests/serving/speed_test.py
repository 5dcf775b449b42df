"""benchmarks/serve.py runs: the server with questions and without, and the empty handler."""

import json
import subprocess
import sys

import pytest

from benchmarks import serve


@pytest.mark.slow
def test_the_server_is_measured_beside_the_empty_handler(model_base_path, tmp_path):
    options = ["--model-base-path", model_base_path, "--rounds", "1", "--seconds", "0.1"]
    command = [sys.executable, "benchmarks/serve.py", *map(str, options), "--results", str(tmp_path)]
    subprocess.run(command, check=True, timeout=300)
    figures = json.loads((tmp_path / "serve.json").read_text())["figures"]
    assert [row["in_progress"] for row in figures["decisions"]] == sorted(serve.LEVELS)
    # The tiny model chooses no questions and refuses to be asked for them, which counts as failed.
    assert all(row["failed"] for row in figures["questions"])
    assert not any(row["failed"] for row in figures["decisions"])

"""benchmarks/serve.py runs: the server with questions and without, and the empty handler."""

import json
import subprocess
import sys

import pytest

from benchmarks import serve


@pytest.mark.slow
def test_the_server_is_measured_beside_the_empty_handler(model_base_path, tmp_path):
    options = ["--model-base-path", model_base_path, "--rounds", "1", "--seconds", "0.1"]
    command = [sys.executable, "benchmarks/serve.py", *map(str, options), "--json", str(tmp_path / "serve.json")]
    subprocess.run(command, check=True, timeout=300)
    rows = json.loads((tmp_path / "serve.json").read_text())
    assert len(rows) == 3 * len(serve.LEVELS)
    # The tiny model chooses no questions and refuses to be asked for them, which counts as failed.
    assert {row["callee"] for row in rows if row["failed"]} == {serve.WITH_QUESTIONS}

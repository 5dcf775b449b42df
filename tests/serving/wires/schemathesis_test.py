"""Requests that schemathesis makes of the OpenAPI document, valid and not, get the answers that it describes."""

import os
import re
import subprocess

import pytest

from tests.serving.conftest import TOKEN

CASES = int(os.environ.get("TRIAGE_SCHEMATHESIS_CASES", "10000"))
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_no_request_gets_an_answer_that_the_document_does_not_describe(environment_of, full_server, tmp_path):
    python = environment_of("schemathesis", "schemathesis==4.32.5")
    command = [python, "-m", "schemathesis.cli", "run", f"{full_server.http.url}/openapi.json", "--checks", CHECKS]
    command += ["--header", ": ".join(*TOKEN.items())]
    command += ["--phases", "examples,coverage,fuzzing", "--max-examples", str(CASES // 8), "--seed", "1"]
    command += ["--suppress-health-check", "all", "--warnings", "off", "--no-color"]
    environment = {**os.environ, "NO_PROXY": "*"}
    finished = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert finished.returncode == 0, finished.stdout[-5000:] + finished.stderr[-2000:]
    (generated,) = re.findall(r"([\d,]+) generated", finished.stdout)
    assert int(generated.replace(",", "")) >= CASES

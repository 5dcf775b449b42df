"""`triage vertex submit` as its users run it."""

import json
import os
import pathlib
import sys

import pytest

import triage_cli

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[3]
FILE = ROOT / "deploy" / "vertex" / "custom-job.yaml"
PLACE = ["--project", "clinic", "--region", "europe-west4", "--bucket", "vignettes"]


def _nobody(tmp_path):
    """The environment of a machine without credentials, and without the service that hands some out."""
    known = {key: value for key, value in os.environ.items() if not key.startswith("GOOGLE_")}
    return {**known, "HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(tmp_path), "NO_GCE_CHECK": "true"}


def _run(python, tmp_path, *arguments):
    command = [ROOT / "triage_cli.py", "vertex", "submit", FILE, *PLACE, *arguments]
    return python.run(*command, env=_nobody(tmp_path), timeout=120)


def test_a_dry_run_prints_the_request_and_nothing_else_without_credentials(python, tmp_path):
    finished = _run(python, tmp_path, "--dry-run", "--display-name", "mine")
    assert (finished.returncode, finished.stderr) == (0, "")
    call = json.loads(finished.stdout)
    assert call["url"].endswith("/v1/projects/clinic/locations/europe-west4/customJobs")
    assert call["body"]["displayName"] == "mine"
    [pool] = call["body"]["jobSpec"]["workerPoolSpecs"]
    assert pool["containerSpec"]["imageUri"] == "europe-west4-docker.pkg.dev/clinic/triage/trainer:0.1.0"
    assert "--data=gs://vignettes/data" in pool["containerSpec"]["args"]


def test_without_credentials_nothing_is_sent_and_one_line_says_so(python, tmp_path):
    refused = _run(python, tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    [line] = refused.stderr.splitlines()
    assert line.startswith("triage vertex: error: no credentials")
    assert line.endswith("gcloud auth application-default login")


def test_without_the_extra_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "google.cloud.aiplatform_v1", None)  # as if it were not installed
    assert triage_cli.main(["vertex", "submit", str(FILE), *PLACE, "--dry-run"]) == 2
    assert capsys.readouterr().err.endswith("pip install 'dyqn-triage[vertex]'\n")


@pytest.mark.parametrize(("bucket", "data"), [("gs://vignettes/", "gs://vignettes/data"), ("v", "gs://v/data")])
def test_a_bucket_may_be_given_with_or_without_its_scheme(bucket, data, capsys):
    arguments = ["--project", "clinic", "--region", "europe-west4", "--bucket", bucket, "--dry-run"]
    assert triage_cli.main(["vertex", "submit", str(FILE), *arguments]) == 0
    [pool] = json.loads(capsys.readouterr().out)["body"]["jobSpec"]["workerPoolSpecs"]
    assert f"--data={data}" in pool["containerSpec"]["args"]

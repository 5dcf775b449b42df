"""The Flex Template has the command's options for parameters, and its jobs score as the command does."""

import argparse
import json
import pathlib
import re
import runpy
import socket
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import triage_cli
from serving.commands import score as command

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy" / "dataflow"
LAUNCH = runpy.run_path(str(DEPLOY / "launch.py"))
METADATA = json.loads((DEPLOY / "metadata.json").read_text())
PARAMETERS = {each["name"]: each for each in METADATA["parameters"]}
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
# Those that the launcher gives itself, or that mean nothing where nobody waits for the job.
NOT_PARAMETERS = {"help", "runner", "beam_options", "json"}
IMAGE = "--sdk_container_image=europe-west4-docker.pkg.dev/clinic/triage/score:0.1.0"
BEAMS = ("--project=clinic", "--region=europe-west4", "--job_name=nightly", IMAGE)


def _options():
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return {action.dest: action for action in parser._actions}


def test_the_parameters_are_the_options_of_the_command():
    options = _options()
    assert options.keys() - NOT_PARAMETERS == PARAMETERS.keys()
    for name, parameter in PARAMETERS.items():
        assert parameter.get("isOptional", False) != options[name].required, name
        assert (parameter.get("paramType") == "BOOLEAN") == (options[name].nargs == 0), name
        assert parameter["label"], name
        assert parameter["helpText"], name


def test_the_arguments_of_the_launcher_become_those_of_the_command():
    line = LAUNCH["command_line"](
        ["--output_format=", "--runner=DataflowRunner", "--input=gs://b/x,gs://b/y", "--allow_unknown_codes=true",
         "--model=gs://b/m", "--region=r", "--output=gs://b/a", "--questions=3", "--labels={\"a\": \"b=c\"}"]
    )  # fmt: skip
    given = triage_cli.parser(line).parse_args(line)
    places = [str(given.model), str(given.output)]
    assert (given.command, given.runner, places) == ("score", "DataflowRunner", ["gs://b/m", "gs://b/a"])
    assert (list(map(str, given.input)), given.output_format, given.questions) == (["gs://b/x", "gs://b/y"], None, 3)
    assert given.allow_unknown_codes
    assert given.beam_options == ["--region=r", '--labels={"a": "b=c"}']


def test_a_launch_without_an_image_for_the_workers_is_one_line(capsys):
    assert LAUNCH["main"](["--runner=DataflowRunner", "--model=gs://b/m"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "--parameters sdk_container_image=IMAGE" in line


def test_the_image_is_linted_of_one_version_of_beam_and_of_python_and_gets_no_other_files():
    linter = pathlib.Path(sys.executable).with_name("hadolint")
    linted = subprocess.run([linter, DEPLOY / "Dockerfile"], capture_output=True, text=True, timeout=60)
    assert linted.returncode == 0, linted.stdout
    [sdk] = re.findall(r"^ARG BEAM=apache/beam_python3\.11_sdk:(\S+)$", DOCKERFILE, re.MULTILINE)
    assert f'"apache-beam[gcp]=={sdk}"' in DOCKERFILE
    setup = (ROOT / "setup.py").read_text()
    [beam] = re.findall(r'"(apache-beam>=[^"]+)"', setup)
    assert Version(sdk) in Requirement(beam).specifier
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    copied = " ".join(re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)).split()
    assert ignored[1:] == ["*", *(f"!{path}" for path in copied)]
    assert re.search(r"^ARG LAUNCHER=\S+/python311-template-launcher-base:\S+$", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^ARG PYTHON=python:3\.11\.", DOCKERFILE, re.MULTILINE)
    copied = re.search(r"^COPY (deploy/.*) (/template/)$", DOCKERFILE, re.MULTILINE)
    assert all((ROOT / path).exists() for path in copied[1].split())
    assert f"FLEX_TEMPLATE_PYTHON_PY_FILE={copied[2]}launch.py" in DOCKERFILE


@pytest.fixture
def stored(guarded_base_path, object_store, tmp_path):
    """A model and two files of cases in a bucket, and what the command answers without Beam."""
    pytest.importorskip("apache_beam", reason="needs the extra `beam`")
    cases = tmp_path / "cases"
    cases.mkdir()
    for name, code in (("a.jsonl", "chest_pain"), ("b.jsonl", "fever")):
        (cases / name).write_text(json.dumps({"vignette_id": name, "present": [code]}) + "\n")
    for folder, name in ((guarded_base_path, "models"), (cases, "cases")):
        object_store.put(folder, f"gs://b/{name}")
    local = ["--model", str(guarded_base_path), "--input", str(cases), "--output", str(tmp_path / "local")]
    assert triage_cli.main(["score", *local]) == 0
    return {path.name: path.read_bytes() for path in (tmp_path / "local").iterdir()}


def _launcher(temporary):
    """The arguments of a launch, in no order of ours."""
    places = ("--input=gs://b/cases", "--output=gs://b/answers", "--model=gs://b/models")
    return [*places, "--runner=DataflowRunner", *BEAMS, *temporary]


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """An empty folder in a Cloud Storage of this machine, for what Beam itself stores."""
    emulator = pytest.importorskip("gcp_storage_emulator.server")
    server = emulator.create_server("localhost", 0, in_memory=True, default_bucket="bucket")
    server.start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://localhost:{server._api._httpd.server_port}")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    timeout = socket.getdefaulttimeout()
    yield f"gs://bucket/{tmp_path.name}"
    socket.setdefaulttimeout(timeout)  # Beam's client changes it
    server.stop()


def test_the_job_that_a_launch_writes_scores_without_the_launcher(stored, object_store, bucket, capsys):
    """Beam's own DataflowRunner writes the job; its pipeline then runs here, where Dataflow would run it."""
    pytest.importorskip("google.cloud.dataflow_v1beta3", reason="needs google-cloud-dataflow-client")
    from apache_beam.io.filesystems import FileSystems

    template = f"{bucket}/job_object"
    temporary = (f"--temp_location={bucket}/temp", f"--staging_location={bucket}/staging")
    assert LAUNCH["main"]([*_launcher(temporary), f"--template_location={template}", "--no_auth"]) == 0
    assert f" {template}" in capsys.readouterr().err
    with FileSystems.open(template) as file:
        job = json.load(file)
    assert (job["name"], job["type"]) == ("nightly", "JOB_TYPE_BATCH")
    [pool] = job["environment"]["workerPools"]
    assert pool["workerHarnessContainerImage"] == IMAGE.partition("=")[2]
    [[staged]] = [match.metadata_list for match in FileSystems.match([f"{bucket}/staging/*/pipeline.pb"])]
    with FileSystems.open(staged.path) as file:
        _run_here(file.read())
    assert {name: object_store.read(f"gs://b/answers/{name}") for name in stored} == stored


def _run_here(serialized):
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.portability import python_urns
    from apache_beam.portability.api import beam_runner_api_pb2
    from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

    pipeline = beam_runner_api_pb2.Pipeline.FromString(serialized)
    for environment in pipeline.components.environments.values():
        environment.urn, environment.payload = python_urns.EMBEDDED_PYTHON, b""  # in place of the image
    FnApiRunner().run_via_runner_api(pipeline, PipelineOptions()).wait_until_finish()

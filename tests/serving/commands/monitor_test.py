"""`triage monitor`, from a served log to its verdict."""

import hashlib
import json
import shutil

import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

import triage_cli
from schemas import directories
from schemas.reference import Reference
from triage_client import TriageClient, evidence_state

# Chest pain is Red, the absence of smoking Blue (see `hand_set`).
EVEN = Reference("a test", 1000, {"chest_pain": 500}, {"smoker": 500}, {"Red": 500, "Blue": 500}, {1: 1000})


@pytest.fixture
def model(model_base_path, tmp_path):
    """Version 3 with a reference of as many Red as Blue cases."""
    shutil.copytree(model_base_path / "3", tmp_path / "models" / "3")
    (tmp_path / "models" / "3" / directories.REFERENCE).write_text(EVEN.to_json(), encoding="utf-8")
    return tmp_path / "models" / "3"


def log_of(serving, path, red, blue):
    with (
        serving(audit_log=str(path), max_batch=1000) as server,
        TriageClient(server.address, timeout_seconds=30.0) as client,
    ):
        states = [evidence_state(["chest_pain"])] * red + [evidence_state([], ["smoker"], no_more_evidence=True)] * blue
        client.batch_triage([*states, evidence_state(["fever"])])  # the last one gets the answer ask
    return str(path)


def rename_model(path, name):
    """Changes which model a file of records is about."""
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            log = prediction_log_pb2.PredictionLog.FromString(record)
            log.log_metadata.model_spec.name = name
            writer.write(log.SerializeToString())


def monitor(tmp_path, *options):
    """Returns the exit code and the report."""
    path = tmp_path / "report.json"
    code = triage_cli.main(["monitor", *options, "--json", str(path)])
    return code, json.loads(path.read_text())


def test_cases_like_those_of_the_version_are_no_drift(serving, model, tmp_path, capsys):
    log = log_of(serving, tmp_path / "log", 100, 110)
    code, report = monitor(tmp_path, "--log", log, "--model", str(model.parent), "--fail-on-drift")
    assert (code, report["verdict"]) == (0, "no_drift")
    assert (report["cases"], report["answers_that_ask"], report["records"]) == (210, 1, 1)
    assert report["version"] == 3
    assert report["manifest_sha256"] == hashlib.sha256((model / directories.MANIFEST).read_bytes()).hexdigest()
    assert "no drift found; differences of rates below an effect of" in capsys.readouterr().out


def test_other_cases_are_drift_which_fails_on_request(serving, model, tmp_path, capsys):
    options = ["--log", log_of(serving, tmp_path / "log", 200, 10), "--model", str(model)]
    code, report = monitor(tmp_path, *options)
    assert (code, report["verdict"]) == (0, "drift")
    assert {each["code"] for each in report["evidence"]} == {"chest_pain", "smoker"}
    assert monitor(tmp_path, *options, "--fail-on-drift")[0] == 1
    output = capsys.readouterr().out
    assert "urgencies: drift (stability index" in output
    assert "drift: the served cases differ from those of the reference" in output


@pytest.mark.parametrize(("decision", "broken"), [("Blue", False), ("Red", True)])
def test_clinicians_decisions_show_whether_a_promise_is_kept(serving, model, tmp_path, capsys, decision, broken):
    path, labels = model / directories.MANIFEST, tmp_path / "labels.jsonl"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"promise": {"levels": {"red": 0.1}}}))
    labels.write_text(json.dumps({"present": [], "absent": ["smoker"], "decisions": [decision]}) + "\n")
    log = log_of(serving, tmp_path / "log", 100, 110)
    # The agent says Blue. One error of one patient shows a risk of more than .25 at this alpha: half for each side.
    options = ["--log", log, "--model", str(model), "--labels", str(labels), "--fail-on-drift", "--alpha", "0.5"]
    code, report = monitor(tmp_path, *options)
    assert (report["promise"]["broken"], report["verdict"], code) == (broken, "no_drift", int(broken))
    output = capsys.readouterr().out
    assert "promise: 1 labelled cases were served, 0 were not" in output
    assert ("promised at most 10.0%: broken" in output) is broken


def test_answers_of_another_version_do_not_count(serving, model, tmp_path):
    other = model.rename(model.with_name("4"))
    log = log_of(serving, tmp_path / "log", 200, 10)
    _, report = monitor(tmp_path, "--log", log, "--model", str(other))
    assert (report["verdict"], report["cases"], report["answers_of_other_versions"]) == ("too_few_cases", 0, 211)


def test_of_several_models_in_a_log_one_is_chosen(serving, model, tmp_path, capsys):
    log, other = tmp_path / "log", tmp_path / "other"
    log_of(serving, log, 100, 110)
    log_of(serving, other, 200, 10)
    for path in other.iterdir():
        rename_model(path, "adults")
        path.rename(log / f"other-{path.name}")
    arguments = ["--log", str(log), "--model", str(model)]
    assert triage_cli.main(["monitor", *arguments]) == 2
    assert "answers of several models, adults, triage: choose one with --model-name" in capsys.readouterr().err
    for name, verdict in (("triage", "no_drift"), ("adults", "drift")):
        _, report = monitor(tmp_path, *arguments, "--model-name", name)
        assert (report["verdict"], report["cases"], report["records_of_other_models"]) == (verdict, 210, 1)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--model", "{bare}"], "no reference.json: export the version with --data DIR"),
        (["--model", "{model}"], "no .tfrecord files"),
        (["--model", "{model}", "--labels", "labels.jsonl"], "--labels: version 3 makes no promise"),
        (["--model", "{model}", "--alpha", "1"], "--alpha 1.0: expected a number between 0 and 1"),
    ],
)
def test_input_that_cannot_be_compared_is_reported_in_one_line(
    model, model_base_path, tmp_path, capsys, options, complaint
):
    (tmp_path / "log").mkdir()
    places = {"bare": model_base_path / "3", "model": model}
    arguments = [option.format(**places) for option in options]
    assert triage_cli.main(["monitor", "--log", str(tmp_path / "log"), *arguments]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("triage monitor: error: ")
    assert complaint in errors
    assert errors.count("\n") == 1

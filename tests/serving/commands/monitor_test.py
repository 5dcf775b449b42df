"""`triage monitor`, from a served log to what the labels say of the promise."""

import hashlib
import json
import shutil

import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

import triage_cli
from schemas import directories
from triage_client import TriageClient, evidence_state


@pytest.fixture
def model(model_base_path, tmp_path):
    """Version 3, which promises that at most one in a thousand patients who are Red is called less urgent."""
    version = shutil.copytree(model_base_path / "3", tmp_path / "models" / "3")
    path = version / directories.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | {"promise": {"levels": {"red": 0.001}}}))
    return version


@pytest.fixture
def log(serving, tmp_path):
    """Two Red cases, three Blue ones (see `hand_set`), and one in which the agent asks."""
    with (
        serving(audit_log=str(tmp_path / "log"), max_batch=1000) as server,
        TriageClient(server.address, timeout_seconds=30.0) as client,
    ):
        states = [evidence_state(["chest_pain"])] * 2 + [evidence_state([], ["smoker"], no_more_evidence=True)] * 3
        client.batch_triage([*states, evidence_state(["fever"])])
    return tmp_path / "log"


@pytest.fixture
def monitor(log, model, tmp_path):
    """Returns the exit code and the report, of a label that says what somebody who does not smoke is."""

    def run(*options, decision="Red", model=model):
        labels, path = tmp_path / "labels.jsonl", tmp_path / "report.json"
        labels.write_text(json.dumps({"present": [], "absent": ["smoker"], "decisions": [decision]}) + "\n")
        given = {"--log": log, "--model": model, "--labels": labels, "--json": path}
        code = triage_cli.main(["monitor", *(str(part) for pair in given.items() for part in pair), *options])
        return code, json.loads(path.read_text()) if path.exists() else None

    return run


@pytest.mark.parametrize(("decision", "broken"), [("Blue", False), ("Red", True)])
def test_clinicians_decisions_show_whether_a_promise_is_kept(monitor, model, capsys, decision, broken):
    # The agent says Blue. One error of one patient shows a risk of more than .01 / 4: of two sides, of two intervals.
    code, report = monitor(decision=decision, model=model.parent)
    assert (report["promise"]["broken"], code) == (broken, int(broken))
    assert (report["version"], report["cases"], report["answers_that_ask"], report["records"]) == (3, 5, 1, 1)
    assert report["manifest_sha256"] == hashlib.sha256((model / directories.MANIFEST).read_bytes()).hexdigest()
    output = capsys.readouterr().out
    assert "1 labelled cases were served, 0 " in output
    assert ("promised at most 0.1%: broken" in output) is broken


def test_answers_of_another_version_do_not_count_and_without_a_labelled_case_nothing_is_said_to_hold(
    monitor, model, capsys
):
    other = model.rename(model.with_name("4"))
    manifest = json.loads((other / directories.MANIFEST).read_text()) | {"model_version": "4"}
    (other / directories.MANIFEST).write_text(json.dumps(manifest))
    code, report = monitor(model=other)
    assert (code, "labels.jsonl: none" in capsys.readouterr().err) == (2, True)
    assert (report["cases"], report["answers_of_other_versions"], report["promise"]["labelled"]) == (0, 6, 0)


def test_of_several_models_in_a_log_one_is_chosen(monitor, log, capsys):
    [path] = log.iterdir()
    [record] = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    record = prediction_log_pb2.PredictionLog.FromString(record)
    record.log_metadata.model_spec.name = "adults"
    with tf.io.TFRecordWriter(str(log / "other.tfrecord")) as writer:
        writer.write(record.SerializeToString())
    assert monitor() == (2, None)
    assert "adults, triage: choose one with --model-name" in capsys.readouterr().err
    for name in ("triage", "adults"):
        _, report = monitor("--model-name", name)
        assert (report["cases"], report["records_of_other_models"]) == (5, 1)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--log", "{empty}"], "no .tfrecord files"),
        (["--model", "{bare}"], "--labels: version 3 makes no promise"),
        (["--model", "{renamed}"], "renamed: "),
    ],
)
def test_input_that_cannot_be_compared_is_reported_in_one_line(
    monitor, model, model_base_path, tmp_path, capsys, options, complaint
):
    (tmp_path / "empty").mkdir()
    renamed = shutil.copytree(model, tmp_path / "renamed")
    places = {"bare": model_base_path / "3", "empty": tmp_path / "empty", "renamed": renamed}
    assert monitor(*(option.format(**places) for option in options)) == (2, None)
    errors = capsys.readouterr().err
    assert errors.startswith("triage monitor: error: ")
    assert complaint in errors
    assert errors.count("\n") == 1

"""`triage score --runner` gives the same files as without it, whatever happens to its workers."""

import collections
import json
import os
import pathlib
import shutil
import sys

import pyarrow.parquet
import pytest
import tensorflow as tf
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import triage_cli
from serving.scoring import file
from triage_runtime.storage import files

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

from apache_beam.io.filesystems import FileSystems

from serving.scoring import pipeline

ALL = ("a.jsonl", "b.jsonl", "c.csv", "d.tfrecord.gz", "e.parquet")
CASE = '{{"vignette_id": "{0}", "present": ["{1}"], "absent": []}}\n'
RETRIES = "BundleBasedDirectRunner"  # gives a bundle that failed to another thread, up to four times


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Five files of cases, of four formats."""
    folder = tmp_path_factory.mktemp("in")
    (folder / "a.jsonl").write_text(CASE.format("a1", "chest_pain") + CASE.format("a2", "smoker"))
    (folder / "b.jsonl").write_text(CASE.format("b1", "fever"))
    (folder / "c.csv").write_text("vignette_id,present,absent\nc1,fever smoker,chest_pain\n")
    bytes_of = {"vignette_id": [b"d1"], "present": [b"smoker"]}
    features = {name: tf.train.Feature(bytes_list=tf.train.BytesList(value=value)) for name, value in bytes_of.items()}
    with tf.io.TFRecordWriter(str(folder / "d.tfrecord.gz"), "GZIP") as writer:
        writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    rows = pyarrow.Table.from_pylist([{"vignette_id": "e1", "present": ["fever"], "questions_asked": 1}])
    pyarrow.parquet.write_table(rows, folder / "e.parquet")
    return folder


@pytest.fixture(scope="module")
def local(guarded_base_path, inputs, tmp_path_factory):
    """The files that the command writes without Beam."""
    out = tmp_path_factory.mktemp("local")
    assert _score(guarded_base_path, inputs, out) == 0
    return _files(out)


def _score(base, source, out, *more):
    return triage_cli.main(["score", "--model", str(base), "--input", str(source), "--output", str(out), *more])


def _files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def logs(monkeypatch, tmp_path_factory):
    """The folder for Beam's logs."""
    folder = tmp_path_factory.mktemp("logs")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def scored(monkeypatch):
    """How often each file was scored."""
    counts = collections.Counter()

    def score_file(scorer, source, *more):
        counts[source.name] += 1
        return file.score_file(scorer, source, *more)

    monkeypatch.setattr(pipeline, "score_file", score_file)
    return counts


def test_the_files_are_those_of_the_command_without_a_runner(guarded_base_path, inputs, local, tmp_path, scored):
    assert _score(guarded_base_path, inputs, tmp_path / "out", "--runner", "DirectRunner") == 0
    assert _files(tmp_path / "out") == local  # score.json, too, and nothing else
    assert scored == dict.fromkeys(ALL, 1)
    assert _score(guarded_base_path, inputs, tmp_path / "out") == 0  # which finds that all is done
    assert _files(tmp_path / "out") == local


LOST = "the worker is lost"


def test_a_bundle_that_fails_is_tried_again_and_each_input_has_its_answers_once(
    guarded_base_path, inputs, local, tmp_path, monkeypatch, scored
):
    """Workers are lost just before answers get their name, just after, and just after the outcome gets its own."""
    losses = {"a.jsonl": "before", "b.jsonl": "after", "c.csv.json": "after"}

    def rename(sources, targets, real=FileSystems.rename):
        loss = losses.pop(targets[0].rpartition("/")[2], None)
        if loss != "before":
            real(sources, targets)
        if loss:
            raise OSError(LOST)

    monkeypatch.setattr(FileSystems, "rename", staticmethod(rename))
    assert _score(guarded_base_path, inputs, tmp_path / "out", "--runner", RETRIES) == 0
    assert losses == {}
    assert _files(tmp_path / "out") == local
    assert scored == {**dict.fromkeys(ALL, 1), "a.jsonl": 2, "b.jsonl": 2}  # what has an outcome is not scored again


def test_what_was_done_when_the_pipeline_failed_is_not_done_again(
    guarded_base_path, inputs, local, tmp_path, monkeypatch, scored, capsys
):
    def fetch(location, path, real=files.fetch):
        if location.endswith(ALL[-1]):
            raise OSError(LOST)
        real(location, path)

    with monkeypatch.context() as patched:
        patched.setattr(files, "fetch", fetch)
        assert _score(guarded_base_path, inputs, tmp_path / "out", "--runner", RETRIES) == 2
    assert LOST in capsys.readouterr().err
    assert set(json.loads((tmp_path / "out" / "score.json").read_text())["files"]) == {*ALL[:-1]}
    assert _score(guarded_base_path, inputs, tmp_path / "out", "--runner", "DirectRunner") == 0
    assert "scoring 1 file on DirectRunner\n" in capsys.readouterr().err
    assert _files(tmp_path / "out") == local
    assert scored == dict.fromkeys(ALL, 1)


def test_what_workers_did_after_their_command_was_killed_is_taken_over(
    guarded_base_path, inputs, local, tmp_path, scored
):
    (tmp_path / ".score").mkdir()
    record = json.loads(local["score.json"])
    for name, entry in record["files"].items():
        (tmp_path / name).write_bytes(local[name])
        outcome = {"input": entry["input"], "best_triage": entry["best_triage"]}
        (tmp_path / ".score" / f"{name}.json").write_text(json.dumps(outcome))
    (tmp_path / "score.json").write_text(json.dumps({**record, "files": {}}))
    assert _score(guarded_base_path, inputs, tmp_path, "--runner", "DirectRunner") == 0
    assert _files(tmp_path) == local
    assert not scored


def test_a_damaged_record_is_one_line(guarded_base_path, inputs, tmp_path, capsys):
    (tmp_path / "score.json").write_text("{")
    assert _score(guarded_base_path, inputs, tmp_path, "--runner", "DirectRunner") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / 'score.json'}: not valid JSON" in line


def test_a_faulty_input_leaves_the_others_their_answers(guarded_base_path, inputs, local, tmp_path, capsys):
    shutil.copytree(inputs, tmp_path / "in")
    (tmp_path / "in" / "b.jsonl").write_text(CASE.format("b1", "gout"))
    assert _score(guarded_base_path, tmp_path / "in", tmp_path / "out", "--runner", "DirectRunner") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"error: {tmp_path / 'in' / 'b.jsonl'}: 'b1' (line or record 1)" in error
    answers = _files(tmp_path / "out")
    assert set(json.loads(answers.pop("score.json"))["files"]) == set(answers) == {*ALL} - {"b.jsonl"}
    assert {name: local[name] for name in answers} == answers


def test_an_option_that_the_runner_misses_is_found_before_anything_is_written(
    guarded_base_path, inputs, tmp_path, capsys
):
    assert _score(guarded_base_path, inputs, tmp_path / "out", "--runner", "DataflowRunner") == 2
    assert "--runner DataflowRunner: Pipeline has validations errors" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_path_that_beam_takes_for_a_pattern_is_refused(guarded_base_path, inputs, tmp_path, capsys):
    assert _score(guarded_base_path, inputs, tmp_path / "out[1]", "--runner", "DirectRunner") == 2
    assert "out[1]: with --runner no path can have any of the characters" in capsys.readouterr().err


def test_a_worker_that_loads_an_unsigned_version_fails_where_signatures_are_required(
    guarded_base_path, inputs, tmp_path, capsys
):
    key = Ed25519PrivateKey.generate().public_key()
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    (tmp_path / "public.pem").write_bytes(key.public_bytes(*form))
    required = ["--require-signature", str(tmp_path / "public.pem"), "--runner", "DirectRunner"]
    assert _score(guarded_base_path, inputs, tmp_path / "out", *required) == 2
    assert f"{guarded_base_path / '4'}: is not signed" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("*.jsonl"))


def test_a_dry_run_prints_the_job_of_what_is_left_and_writes_nothing(
    guarded_base_path, inputs, tmp_path, capsys, scored
):
    out = tmp_path / "out"
    _score(guarded_base_path, inputs / "a.jsonl", out)
    before = _files(out)
    capsys.readouterr()
    flink = ("--dry-run", "--runner", "FlinkRunner", "--beam-options", "--flink_master=host:8081")
    assert _score(guarded_base_path, inputs, out, *flink) == 0
    sent = json.loads(capsys.readouterr().out)
    assert sent["job"]["model"] == str(guarded_base_path / "4")
    assert [shard["target"] for shard in sent["shards"]] == [str(out / name) for name in ALL[1:]]
    assert sent["options"] == {"runner": "FlinkRunner", "flink_master": "host:8081"}
    names = {each["uniqueName"] for each in sent["pipeline"]["components"]["transforms"].values()}
    assert {"shards/Impulse", "score/BeamML_RunInference"} <= names
    assert _files(out) == before


def test_model_inputs_answers_and_report_can_be_in_a_bucket(
    guarded_base_path, inputs, local, bucket, tmp_path, scored, capsys
):
    for folder, name in ((guarded_base_path, "models"), (inputs, "cases")):
        for path in filter(pathlib.Path.is_file, folder.rglob("*")):
            with path.open("rb") as content:
                files.replace(f"{bucket}/{name}/{path.relative_to(folder)}", content, f"{bucket}/scratch")
    there = [f"{bucket}/{name}" for name in ("models", "cases", "answers")]
    assert _score(*there, "--runner", "DirectRunner") == 0
    for entry in files.entries(f"{bucket}/answers/**"):
        files.fetch(entry.location, tmp_path / entry.location.removeprefix(f"{bucket}/answers/"))
    answers = _files(tmp_path)
    record = json.loads(answers.pop("score.json"))
    assert answers == {name: content for name, content in local.items() if name != "score.json"}
    assert record["files"]["a.jsonl"]["input"]["path"] == f"{bucket}/cases/a.jsonl"
    report = f"{bucket}/report.json"
    assert _score(*there, "--json", report, "--runner", "DirectRunner") == 0
    assert "nothing to do" in capsys.readouterr().err
    assert json.loads(files.read(report))["cases"] == 6
    assert _score(there[0], f"{bucket}/lost", there[2], "--runner", "DirectRunner") == 2
    assert f"--input {bucket}/lost: no such file or directory" in capsys.readouterr().err
    assert scored == dict.fromkeys(ALL, 1)


FAILING = """
import os, sys
if any("sdk_worker_main" in each for each in sys.orig_argv):
    from apache_beam.io.filesystems import FileSystems
    def rename(sources, targets, real=FileSystems.rename):
        if targets[0].endswith("b.jsonl") and not os.path.exists({failed!r}):
            os.mkdir({failed!r})
            raise OSError("the worker is lost")
        real(sources, targets)
    FileSystems.rename = staticmethod(rename)
"""  # imported by every Python that starts


@pytest.mark.slow
def test_processes_that_fail_leave_the_rest_to_the_next_run(
    guarded_base_path, inputs, local, tmp_path, monkeypatch, logs, capfd
):
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text(FAILING.format(failed=str(tmp_path / "failed")))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "path"), *map(str, sys.path)]))
    processes = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")
    options = ("--runner", "DirectRunner", "--beam-options", *processes)
    assert _score(guarded_base_path, inputs, tmp_path / "out", *options) == 2
    assert not (tmp_path / "out" / "b.jsonl").exists()
    [log] = logs.glob("*.log")
    assert capfd.readouterr().err.splitlines() == [
        "scoring 5 files on DirectRunner",
        "triage score: error: the Beam pipeline failed on DirectRunner: OSError: "
        f"{tmp_path / 'out' / 'b.jsonl'}: {LOST}; Beam's log is in {log}",
    ]
    assert "Traceback" in log.read_text()
    log.unlink()
    assert _score(guarded_base_path, inputs, tmp_path / "out", *options) == 0
    assert _files(tmp_path / "out") == local
    assert len(capfd.readouterr().err.splitlines()) == 4  # start, speed, decisions and result, and nothing of Beam's
    assert list(logs.glob("*.log")) == []


KILLED = """
import os, sys
if any("sdk_worker_main" in each for each in sys.orig_argv):
    from apache_beam.io.filesystems import FileSystems
    def rename(sources, targets, real=FileSystems.rename):
        if targets[0].endswith("b.jsonl"):
            os.kill(os.getpid(), 9)
        real(sources, targets)
    FileSystems.rename = staticmethod(rename)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_command_which_then_can_be_run_again(
    guarded_base_path, inputs, local, tmp_path, monkeypatch, capfd
):
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text(KILLED)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "path"), *map(str, sys.path)]))
    options = ("--beam-options", "--direct_running_mode=multi_processing", "--direct_num_workers=2")
    assert _score(guarded_base_path, inputs, tmp_path / "out", "--runner", "DirectRunner", *options) == 2
    assert "failed on DirectRunner: Worker subprocess exited with return code" in capfd.readouterr().err
    assert _score(guarded_base_path, inputs, tmp_path / "out", "--runner", "DirectRunner") == 0
    assert _files(tmp_path / "out") == local

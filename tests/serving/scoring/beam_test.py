"""`triage score --runner` gives the same files as without it, whatever happens to its workers."""

import json
import re
import shutil
import signal
import threading

import pyarrow.parquet
import pytest
import tensorflow as tf

import triage_cli

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

from apache_beam.runners.portability.portable_runner import PipelineResult

from serving.scoring import beam, file

ALL = ("a.jsonl", "b.jsonl", "c.csv", "d.tfrecord.gz", "e.parquet")
CASE = '{{"vignette_id": "{0}", "present": ["{1}"], "absent": []}}\n'
RETRIES = "BundleBasedDirectRunner"  # gives a bundle that failed to another thread, up to four times
HERE = ("--runner", "DirectRunner")


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
    """The files that the command writes without Beam, and its report."""
    out = tmp_path_factory.mktemp("local")
    report = tmp_path_factory.mktemp("report") / "report.json"
    assert _score(guarded_base_path, inputs, out, "--json", str(report)) == 0
    return _files(out), json.loads(report.read_text())


def _score(base, source, out, *more):
    return triage_cli.main(["score", "--model", str(base), "--input", str(source), "--output", str(out), *more])


def _files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_and_report_are_those_of_the_command_without_a_runner(guarded_base_path, inputs, local, tmp_path):
    report = tmp_path / "report.json"
    assert _score(guarded_base_path, inputs, tmp_path / "out", "--json", str(report), *HERE) == 0
    answers, figures = local
    assert _files(tmp_path / "out") == answers
    figures = {**figures, "output": str(tmp_path / "out")}
    assert {**json.loads(report.read_text()), "seconds": None} == {**figures, "seconds": None}


def test_a_worker_that_is_lost_leaves_no_part_of_a_file_and_another_one_does_its_work(
    guarded_base_path, inputs, local, tmp_path, monkeypatch
):
    before = []

    def lost_at_first(scorer, source, target, *more):
        if source.name == "b.jsonl" and not before:
            before.extend(path.name for path in (tmp_path / "out").iterdir())
            target.write_text("half")
            raise OSError("the worker is lost")
        return file.score_file(scorer, source, target, *more)

    monkeypatch.setattr(beam, "score_file", lost_at_first)
    assert _score(guarded_base_path, inputs, tmp_path / "out", "--runner", RETRIES) == 0
    assert "b.jsonl" not in before
    answers = _files(tmp_path / "out")
    assert {name: answers[name] for name in ALL} == local[0]


def test_a_faulty_case_is_named_as_without_a_runner_and_its_file_has_no_answers(
    guarded_base_path, inputs, tmp_path, capsys
):
    shutil.copytree(inputs, tmp_path / "in")
    (tmp_path / "in" / "b.jsonl").write_text(CASE.format("b1", "gout"))
    errors = []
    for more in ((), HERE):
        assert _score(guarded_base_path, tmp_path / "in", tmp_path / "out", *more) == 2
        errors.append(capsys.readouterr().err.splitlines()[-1])
    assert f"error: {tmp_path / 'in' / 'b.jsonl'}: line 1, 'b1'" in errors[0]
    assert errors[1] == errors[0]
    assert not (tmp_path / "out" / "b.jsonl").exists()


@pytest.mark.parametrize(
    ("runner", "options", "fault"),
    [
        ("DataflowRunner", ["--region=r"], "--runner DataflowRunner: .*Missing required option: project"),
        ("Walker", [], "--runner Walker: Unexpected pipeline runner"),
        ("DirectRunner", ["--direct_running_mode=x"], "--beam-options: argument --direct_running_mode"),
    ],
)
def test_an_option_that_beam_refuses_is_named_before_anything_is_written(
    guarded_base_path, inputs, tmp_path, capsys, runner, options, fault
):
    more = ("--runner", runner, "--beam-options", *options)
    assert _score(guarded_base_path, inputs, tmp_path / "out", *more) == 2
    assert re.search(fault, capsys.readouterr().err.splitlines()[-1])
    assert not (tmp_path / "out").exists()


here_and_by_beam = pytest.mark.parametrize("more", [(), HERE], ids=["here", "beam"])


@here_and_by_beam
def test_an_unsigned_version_answers_nothing_where_signatures_are_required(
    guarded_base_path, inputs, signing_key, tmp_path, capsys, more
):
    required = ["--require-signature", signing_key[1], *more]
    assert _score(guarded_base_path, inputs, tmp_path / "out", *required) == 2
    assert f"{guarded_base_path / '4'}: is not signed" in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*"))


@here_and_by_beam
def test_model_inputs_answers_and_report_can_be_in_a_store(
    guarded_base_path, inputs, local, object_store, capsys, more
):
    for folder, name in ((guarded_base_path, "models"), (inputs, "cases")):
        object_store.put(folder, f"gs://bucket/{name}")
    there = [f"gs://bucket/{name}" for name in ("models", "cases", "answers")]
    assert _score(*there, "--json", "gs://bucket/report.json", *more) == 0
    answers = {name.rpartition("/")[2]: object_store.read(name) for name in object_store.names(there[2])}
    assert answers == local[0]
    report = json.loads(object_store.read("gs://bucket/report.json"))
    assert (report["output"], report["answers"]) == (there[2], local[1]["answers"])
    assert _score(there[0], "gs://bucket/lost", there[2], *more) == 2
    assert "gs://bucket/lost: " in capsys.readouterr().err


@pytest.mark.parametrize("refused", [False, True])
def test_the_job_of_an_interrupted_command_is_cancelled_or_named(
    guarded_base_path, inputs, tmp_path, monkeypatch, capsys, refused
):
    cancelled, interrupted = [], threading.Event()

    def cancel(self, real=PipelineResult.cancel):
        interrupted.set()
        if refused:
            raise OSError("403 no access")
        real(self)
        cancelled.append(self.state)

    def interrupt(*_):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        interrupted.wait(60)  # the job goes on
        raise OSError("cancelled")

    monkeypatch.setattr(PipelineResult, "cancel", cancel)
    monkeypatch.setattr(beam, "score_file", interrupt)
    portable = ("--runner", "PortableRunner", "--beam-options", "--job_endpoint=embed", "--environment_type=LOOPBACK")
    code = _score(guarded_base_path, inputs / "b.jsonl", tmp_path / "out", *portable)
    assert code == (2 if refused else 130)
    if refused:
        assert re.search(r"the job \S+ on PortableRunner may be .*403 no access", capsys.readouterr().err)
    else:
        assert cancelled == ["CANCELLED"]


def test_without_beam_the_error_says_what_to_install(guarded_base_path, inputs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("triage_runtime.command_line.extras.is_installed", lambda module: module != "apache_beam")
    assert _score(guarded_base_path, inputs, tmp_path / "out", *HERE) == 2
    assert "pip install 'dyqn-triage[beam]'" in capsys.readouterr().err

"""Commands on an object store that has neither folders nor renaming, appending or locks."""

import argparse

import pytest
import tensorflow as tf

import triage_cli
from schemas.errors import InputError
from trainer.commands import train
from trainer.dyqn import workers
from triage_runtime.storage import locations

BUCKET = "gs://bucket"
# What is stored is not the preset's business, and this one trains in half the time.
PAPER = ["--preset", "paper", "--hidden-sizes", "8", "--batch-size", "8", "--memory-capacity", "100",
         "--burn-in-steps", "20", "--steps", "60", "--checkpoint-interval", "30",
         "--evaluation-interval", "0"]  # fmt: skip


@pytest.mark.slow
def test_a_checkpoint_is_named_in_the_store_only_when_all_of_it_is_there(object_store, data_directory):
    object_store.put(data_directory, f"{BUCKET}/data")
    job = f"{BUCKET}/runs/job"
    train = ["train", "--data", f"{BUCKET}/data", "--job-dir", job, *PAPER]
    assert triage_cli.main(train) == 0
    named = object_store.history.index(("write", f"{job}/checkpoints/checkpoint"))
    first = [name for done, name in object_store.history[:named] if done == "write"]
    assert {f"{job}/checkpoints/ckpt-30.index", f"{job}/checkpoints/ckpt-30.data-00000-of-00001"} <= set(first)
    assert f"{job}/checkpoints/ckpt-60.index" not in first, "the first one went up before the second was made"


def _staged(location):
    return locations.staged(argparse.Namespace(path=location))


def test_the_file_that_completes_a_version_is_uploaded_last(object_store):
    with _staged(locations.model_base(f"{BUCKET}/models")) as local:
        (local.path / "1").mkdir(parents=True)
        for name in ("saved_model.pb", "zebra", "manifest.json"):
            (local.path / "1" / name).write_text(name)
    assert [name.rpartition("/")[2] for _, name in object_store.history] == ["manifest.json", "zebra", "saved_model.pb"]


def test_only_the_newest_version_is_fetched_and_the_numbers_of_the_others(object_store):
    for version in (2, 10):
        object_store.write(f"{BUCKET}/models/{version}/saved_model.pb", b"graph")
    with _staged(locations.model_base(f"{BUCKET}/models")) as local:
        there = sorted(path.relative_to(local.path).as_posix() for path in local.path.rglob("*"))
    assert there == ["10", "10/saved_model.pb", "2"]


def test_what_was_not_touched_is_not_written_and_what_was_not_fetched_is_not_deleted(object_store):
    for name in ("run.json", "checkpoints/ckpt-1.index", "logs/events"):
        object_store.write(f"{BUCKET}/job/{name}", b"old")
    object_store.write(f"{BUCKET}/neighbour", b"old")
    with _staged(locations.result(f"{BUCKET}/job")) as local:
        (local.path / "checkpoints/ckpt-1.index").unlink()
        (local.path / "checkpoints/ckpt-2.index").write_text("new")
        local.upload()
    assert object_store.history == [
        ("write", f"{BUCKET}/job/checkpoints/ckpt-2.index"),
        ("remove", f"{BUCKET}/job/checkpoints/ckpt-1.index"),
    ]


def test_new_vignettes_are_never_beside_the_old_counts(object_store):
    for name in ("stats.json", "train-00000-of-00001.tfrecord", "vocabulary.csv"):
        object_store.write(f"{BUCKET}/data/{name}", b"old")
    with _staged(locations.result(f"{BUCKET}/data")) as local:
        for name in ("stats.json", "train-00000-of-00001.tfrecord"):
            (local.path / name).write_text("newer")
    assert object_store.history == [
        ("remove", f"{BUCKET}/data/stats.json"),
        ("write", f"{BUCKET}/data/train-00000-of-00001.tfrecord"),
        ("write", f"{BUCKET}/data/stats.json"),
    ]


def test_a_folder_that_a_tool_marked_with_an_empty_object_is_read(object_store):
    for name, content in (("data/", b""), ("data/a", b"1"), ("data/below/", b""), ("data/below/b", b"2")):
        object_store.write(f"{BUCKET}/{name}", content)
    with _staged(locations.source(f"{BUCKET}/data")) as local:
        there = {path.relative_to(local.path).as_posix() for path in local.path.rglob("*") if path.is_file()}
    assert there == {"a", "below/b"}


def test_a_command_that_reads_writes_nothing(object_store):
    object_store.write(f"{BUCKET}/data/stats.json", b"old")
    with _staged(locations.source(f"{BUCKET}/data")) as local:
        (local.path / "stats.json").unlink()
    assert object_store.history == []


def test_any_file_system_of_tensorflow_works():
    """Not the store of these tests: TensorFlow's own file system in memory, registered as `ram`."""
    tf.io.gfile.makedirs("ram://staging_test/in")
    with tf.io.gfile.GFile("ram://staging_test/in/config.json", "w") as file:
        file.write("{}")
    given = argparse.Namespace(
        config=locations.source("ram://staging_test/in/config.json"),
        json=locations.fresh_result("ram://staging_test/out"),
    )
    with locations.staged(given) as local:
        local.json.write_text(local.config.read_text() + "!")
    with tf.io.gfile.GFile("ram://staging_test/out") as file:
        assert file.read() == "{}!"


def test_errors_name_the_address(object_store, data_directory, capsys):
    nowhere = ["evaluate", "--job-dir", f"{BUCKET}/nowhere", "--data", f"{BUCKET}/data"]
    assert triage_cli.main(nowhere) == 2
    assert f"{BUCKET}/data: " in capsys.readouterr().err
    object_store.put(data_directory, f"{BUCKET}/data")
    assert triage_cli.main(nowhere) == 2
    assert f"{BUCKET}/nowhere: no run.json" in capsys.readouterr().err


def test_rejects_reach_the_store_though_the_command_fails(object_store, data_directory, capsys):
    folder = data_directory.parent
    object_store.write(f"{BUCKET}/bad.jsonl", b"no vignette\n")
    object_store.write(f"{BUCKET}/vocabulary.csv", (folder / "vocabulary.csv").read_bytes())
    arguments = ["--vignettes", f"{BUCKET}/bad.jsonl", "--vocabulary", f"{BUCKET}/vocabulary.csv"]
    assert triage_cli.main(["prepare", *arguments, "--out", f"{BUCKET}/data"]) == 2
    assert f"{BUCKET}/data/rejects.jsonl" in capsys.readouterr().err
    assert b"no vignette" in object_store.read(f"{BUCKET}/data/rejects.jsonl")
    assert f"{BUCKET}/data/stats.json" not in object_store.names()


def test_a_directory_that_is_not_empty_is_not_overwritten_unasked(object_store, data_directory, capsys):
    folder = data_directory.parent
    object_store.write(f"{BUCKET}/data/holiday.jpg", b"beach")
    arguments = ["--vignettes", str(folder / "vignettes.jsonl"), "--vocabulary", str(folder / "vocabulary.csv")]
    assert triage_cli.main(["prepare", *arguments, "--out", f"{BUCKET}/data"]) == 2
    assert f"--out {BUCKET}/data: not empty" in capsys.readouterr().err
    assert triage_cli.main(["prepare", *arguments, "--out", f"{BUCKET}/data", "--overwrite"]) == 2
    assert object_store.names() == [f"{BUCKET}/data/holiday.jpg"]


@pytest.mark.parametrize("fault", [None, "bad vignettes"])
@pytest.mark.usefixtures("object_store")
def test_a_store_that_refuses_is_one_error_and_that_of_the_command_comes_first(monkeypatch, fault):
    refused = []

    def refuse(*_, **__):
        refused.append(1)
        raise tf.errors.PermissionDeniedError(None, None, "403 Forbidden\nmore of it")

    def command():
        with _staged(locations.fresh_result(f"{BUCKET}/runs/figures.json")) as local:
            local.path.write_text("{}")
            if fault:
                raise InputError(f"{local.path}: {fault}")

    monkeypatch.setattr(tf.io.gfile, "copy", refuse)
    expected = f"{BUCKET}/runs/figures.json: {fault}" if fault else f"{BUCKET}/runs: .*403 Forbidden"
    with pytest.raises(InputError, match=f"^{expected}"):
        command()
    assert refused == [1]


@pytest.mark.usefixtures("object_store")
def test_several_workers_are_refused_a_job_directory_that_they_cannot_share(data_directory, monkeypatch, capsys):
    monkeypatch.setattr(train, "join", lambda: workers.Workers(workers.WorkerPlace(0, 2)))
    assert triage_cli.main(["train", "--data", str(data_directory), "--job-dir", f"{BUCKET}/runs/job"]) == 2
    assert "--job-dir gs://bucket/runs/job: 2 workers" in capsys.readouterr().err

"""Each file of cases gets a file for its answers."""

import pytest

from schemas.errors import InputError
from serving.scoring.shards import Shard, local_files, shards_of
from triage_runtime.storage.files import Entry


@pytest.mark.parametrize(
    ("name", "output_format", "target"),
    [
        ("in/a.jsonl.gz", None, "out/a.jsonl.gz"),
        ("in/a.jsonl.gz", "csv", "out/a.csv"),
        ("in/train-00000-of-00001.tfrecord", "parquet", "out/train-00000-of-00001.parquet"),
        ("gs://bucket/in/a.csv", None, "out/a.csv"),
    ],
)
def test_the_answers_have_the_name_of_the_input(name, output_format, target):
    assert shards_of([Entry(name, 2, 3.0)], "out", output_format) == [Shard(name, target, 2, 3.0)]


def test_a_file_given_twice_is_one_and_two_of_one_name_are_refused():
    entries = [Entry("in/a.csv", 2, 3.0), Entry("in/a.csv", 2, 3.0)]
    assert len(shards_of(entries, "out", None)) == 1
    with pytest.raises(InputError, match=r"^b/a.csv and in/a.csv have the same name"):
        shards_of([*entries, Entry("b/a.csv", 2, 3.0)], "out", None)


def test_no_answers_replace_an_input(tmp_path):
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "a.jsonl").write_text("{}")
    (tmp_path / "link").symlink_to("cases")
    inputs = local_files([str(tmp_path / "cases")])
    for output in (tmp_path / "cases", tmp_path / "link", tmp_path / "cases" / ".." / "link"):
        with pytest.raises(InputError, match=r"a\.jsonl: the answers would replace this input: give another directory"):
            shards_of(inputs, str(output), None)
    with pytest.raises(InputError, match=r"^gs://b/c/a\.csv: the answers would replace"):
        shards_of([Entry("gs://b/c/a.csv", 2, 3.0)], "gs://b/c", None)
    [beside] = shards_of(inputs, str(tmp_path / "cases"), "csv")
    assert beside.name == "a.csv"


def test_the_state_changes_with_the_file(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("{}")
    [before] = shards_of(local_files([str(path)]), "out", None)
    path.write_text("{ }")
    [after] = shards_of(local_files([str(path)]), "out", None)
    assert before.state != after.state
    assert after.state == {"path": str(path), "bytes": 3, "modified": path.stat().st_mtime}
    assert Shard("gs://b/a.csv", "o/a.csv", 1, 2.0).state["path"] == "gs://b/a.csv"

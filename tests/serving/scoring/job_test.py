"""The options of `triage score`, and the file for the answers to each file of cases."""

import pathlib

import pytest

from schemas.errors import InputError
from serving.scoring.job import ScoreOptions, Shard, shards_of
from triage_runtime.storage import locations


def _given(source=("in",), output="out", **change):
    values = {
        "output_format": None,
        "questions": 0,
        "allow_unknown_codes": False,
        "defer_below": None,
        "require_signature": None,
        "json": None,
        "runner": None,
        "beam_options": [],
    }
    inputs = [locations.source(str(each)) for each in source]
    places = {"model": pathlib.Path("m"), "input": inputs, "output": locations.fresh_result(str(output))}
    return ScoreOptions(**{**places, **values, **change})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"questions": 11}, "--questions 11"),
        ({"defer_below": 1.5}, "--defer-below 1.5"),
        ({"beam_options": ["--direct_num_workers=2"]}, "--beam-options: needs --runner"),
        ({"runner": "DirectRunner", "beam_options": ["--questions=2"]}, "--questions=2: "),
    ],
)
def test_a_bad_option_is_named(change, named):
    with pytest.raises(InputError, match=f"^{named}"):
        _given(**change)


@pytest.mark.parametrize(
    ("name", "output_format", "answers"),
    [
        ("a.jsonl.gz", None, "a.jsonl.gz"),
        ("a.jsonl.gz", "csv", "a.csv"),
        ("train-00000-of-00001.tfrecord", "parquet", "train-00000-of-00001.parquet"),
    ],
)
def test_the_answers_have_the_name_of_the_input(tmp_path, object_store, name, output_format, answers):
    (tmp_path / name).touch()
    object_store.write(f"gs://bucket/in/{name}", b"")
    assert shards_of(_given([tmp_path / name] * 2, output_format=output_format)) == [
        Shard(tmp_path / name, pathlib.Path("out") / answers)
    ]
    [shard] = shards_of(_given(["gs://bucket/in"], "gs://bucket/out", output_format=output_format))
    assert (str(shard.source), str(shard.target)) == (f"gs://bucket/in/{name}", f"gs://bucket/out/{answers}")


def test_two_inputs_of_one_name_are_refused(tmp_path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.csv").touch()
    with pytest.raises(InputError, match=r"y/a\.csv .*x/a\.csv"):
        shards_of(_given([tmp_path / "x", tmp_path / "y"]))


def test_no_answers_replace_an_input(tmp_path, object_store):
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "a.jsonl").write_text("{}")
    (tmp_path / "link").symlink_to("cases")
    object_store.write("gs://b/c/a.csv", b"")
    for output in (tmp_path / "cases", tmp_path / "link", tmp_path / "cases" / ".." / "link"):
        with pytest.raises(InputError, match=r"a\.jsonl: .*replace"):
            shards_of(_given([tmp_path / "cases"], output))
    with pytest.raises(InputError, match=r"^gs://b/c/a\.csv: .*replace"):
        shards_of(_given(["gs://b/c"], "gs://b/c"))
    [beside] = shards_of(_given([tmp_path / "cases"], tmp_path / "cases", output_format="csv"))
    assert beside.target.name == "a.csv"


@pytest.mark.parametrize("place", ["{}", "gs://bucket"])
def test_a_folder_without_cases_and_what_is_not_there_are_named(tmp_path, object_store, place):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "cases.txt").touch()
    object_store.write("gs://bucket/docs/cases.txt", b"")
    place = place.format(tmp_path)
    for source, fault in (
        ("docs", "no files"),
        ("docs/cases.txt", "unknown format"),
        ("lost", "no such"),
    ):
        with pytest.raises(InputError, match=f"{place}/{source}: {fault}"):
            shards_of(_given([f"{place}/{source}"]))

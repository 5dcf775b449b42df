import os

import pytest

from schemas.errors import InputError
from trainer.data.output import output_directory


def fill(path, *names):
    path.mkdir(exist_ok=True)
    for name in names:
        (path / name).write_text(name)


def names_in(path):
    return sorted(os.listdir(path))


DATA = ("stats.json", "vocabulary.csv", "schema.pbtxt", "rejects.jsonl", "train-00000-of-00001.tfrecord")


def test_the_directory_appears_whole_and_nothing_else_stays(tmp_path):
    out = tmp_path / "made" / "data"
    with output_directory(out, overwrite=False) as output:
        fill(output.staging, "stats.json")
        assert not out.exists()
        output.publish()

    assert names_in(out) == ["stats.json"]
    assert names_in(out.parent) == ["data"]


def test_the_directory_has_the_usual_permissions(tmp_path):
    fill(tmp_path / "usual")
    with output_directory(tmp_path / "out", overwrite=False) as output:
        output.publish()

    assert (tmp_path / "out").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_error_on_the_way_leaves_what_stood_there(tmp_path, overwrite):
    out = tmp_path / "out"
    fill(out, *(DATA if overwrite else ()))

    def interrupted():
        with output_directory(out, overwrite) as output:
            fill(output.staging, "stats.json")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert names_in(out) == sorted(DATA if overwrite else ())
    assert names_in(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("names", "overwrite", "named"),
    [
        (DATA, False, "out: not empty: .*--overwrite"),
        ((*DATA, "thesis.tex"), True, r"out: .*'thesis\.tex'"),
        (None, True, "out: .*Not a dir"),
    ],
)
def test_data_is_replaced_only_where_the_user_says_so_and_nothing_else_ever(tmp_path, names, overwrite, named):
    (tmp_path / "out").touch() if names is None else fill(tmp_path / "out", *names)
    with pytest.raises(InputError, match=f"--out .*{named}"), output_directory(tmp_path / "out", overwrite):
        pass


def test_what_may_be_replaced_is(tmp_path):
    for before, overwrite in ((DATA, True), ((), False), (("rejects.jsonl",), False)):
        path = tmp_path / f"out-{len(before)}"
        fill(path, *before)
        with output_directory(path, overwrite) as output:
            fill(output.staging, "stats.json")
            output.publish()
        assert names_in(path) == ["stats.json"]


def test_a_directory_that_filled_meanwhile_is_not_replaced(tmp_path):
    with output_directory(tmp_path / "out", overwrite=False) as output:
        fill(tmp_path / "out", "stats.json")
        with pytest.raises(InputError, match="not empty"):
            output.publish()

    assert (tmp_path / "out" / "stats.json").read_text() == "stats.json"


@pytest.mark.parametrize("before", [None, (), ("rejects.jsonl",)])
def test_rejects_alone_go_into_the_directory(tmp_path, before):
    out = tmp_path / "out"
    if before is not None:
        fill(out, *before)
    with output_directory(out, overwrite=False) as output:
        fill(output.staging, "rejects.jsonl")
        place = output.publish_rejects()

    assert place == out / "rejects.jsonl"
    assert place.read_text() == "rejects.jsonl"
    assert names_in(out) == ["rejects.jsonl"]


def test_rejects_go_beside_data_that_stays(tmp_path):
    out = tmp_path / "out"
    fill(out, *DATA)
    (out / "rejects.jsonl").write_text("of the data")
    with output_directory(out, overwrite=True) as output:
        fill(output.staging, "rejects.jsonl")
        place = output.publish_rejects()

    assert place == tmp_path / "out.rejects.jsonl"
    assert place.read_text() == "rejects.jsonl"
    assert (out / "rejects.jsonl").read_text() == "of the data"

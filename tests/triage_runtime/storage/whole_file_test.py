"""Files that are replaced whole."""

import os
import pathlib

import pytest

from schemas.errors import InputError
from triage_runtime.storage import whole_file


@pytest.mark.parametrize(("binary", "content"), [(False, "n\u00e9w"), (True, b"\xff\n")])
def test_the_new_content_takes_the_place_of_the_old_one_and_nothing_lies_beside_it(tmp_path, binary, content):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with whole_file.replacing(path, binary) as file:
        file.write(content)
        assert path.read_text() == "old"
    assert path.read_bytes() == (content if binary else content.encode())
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_a_failure_leaves_the_old_content(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with whole_file.replacing(path) as file:
            file.write("half")
            raise ValueError("not a figure")

    with pytest.raises(ValueError, match="figure"):
        fail()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_a_library_that_writes_to_a_path_sees_the_ending_of_the_name(tmp_path):
    path = tmp_path / "agent.weights.h5"
    with whole_file.path_replacing(path) as unfinished:
        assert unfinished.name.endswith(".weights.h5")
        unfinished.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"


def test_a_full_disk_names_the_file(tmp_path, full_disk):
    path = tmp_path / "a.txt"
    with full_disk(2), pytest.raises(OSError, match=f"File too large: '{path}'"), whole_file.replacing(path) as file:
        file.write("longer")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_is_no_file_of_its_own_stays_where_writing_fails(tmp_path, kind):
    path = tmp_path / kind
    (tmp_path / "file").touch()
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("file")
    with pytest.raises(OSError, match="full"), whole_file.removed_unless_written(path):
        raise OSError("full")
    assert path.exists()


def test_a_device_or_a_directory_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "pipe", tmp_path / "folder", pathlib.Path(os.devnull)):
        with pytest.raises(OSError, match="regular file"), whole_file.replacing(path):
            pass
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "pipe"]


@pytest.mark.parametrize("content", ["{", "[1]", "\ufffe"])
def test_a_file_that_is_not_a_json_object_is_named(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"config\.json"):
        whole_file.read_json(path)
    with pytest.raises(InputError, match="cannot read"):
        whole_file.read_json(tmp_path / "missing.json")

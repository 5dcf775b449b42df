"""Beam's file systems read and write whole files, as bytes."""

import io

import pytest

from triage_runtime.storage import files

pytest.importorskip("apache_beam", reason="needs the extra `beam`")


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    location, scratch = str(tmp_path / "a.gz"), str(tmp_path / "scratch")
    files.replace(location, io.BytesIO(b"old"), scratch)
    files.replace(location, io.BytesIO(b"new"), scratch)
    assert files.read(location) == b"new"  # as it is, although its name says that it is compressed

    class Broken(io.BytesIO):
        def read(self, *_):
            raise OSError("broken")

    with pytest.raises(OSError, match=r"a.gz: broken"):
        files.replace(location, Broken(), scratch)
    assert files.read(location) == b"new"
    assert [entry.location for entry in files.entries(f"{tmp_path}/*")] == [location]


def test_files_are_listed_with_their_size_and_time_and_fetched(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "b").write_bytes(b"12")
    (tmp_path / "in" / "deep" / "a").write_bytes(b"123")
    time = (tmp_path / "in" / "b").stat().st_mtime
    assert files.entries(f"{tmp_path}/in/*") == [(str(tmp_path / "in" / "b"), 2, time)]
    assert [entry.size for entry in files.entries(f"{tmp_path}/in/**")] == [2, 3]
    files.fetch(str(tmp_path / "in" / "deep" / "a"), tmp_path / "out" / "a")
    assert (tmp_path / "out" / "a").read_bytes() == b"123"


def test_what_is_missing_is_none_or_nothing_or_named(tmp_path):
    assert files.read(str(tmp_path / "lost")) is None
    assert files.entries(str(tmp_path / "lost" / "*")) == []
    with pytest.raises(OSError, match=r"lost: .*No such file"):
        files.fetch(str(tmp_path / "lost"), tmp_path / "copy")
    files.remove(str(tmp_path / "lost"))


def test_a_folder_is_removed_with_what_it_holds(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").touch()
    files.remove(str(tmp_path / "folder"))
    assert list(tmp_path.iterdir()) == []

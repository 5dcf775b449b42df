"""What is read from files is read again when they change, and kept while they are faulty."""

import pathlib

import pytest

from schemas.errors import InputError
from serving.security.reread import Reread


def _numbers(path: pathlib.Path) -> "Reread[list[int]]":
    def read() -> list[int]:
        try:
            return [int(word) for word in path.read_text().split()]
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: {error}") from None

    return Reread([path], read, "the earlier numbers stay")


def test_changed_files_are_read_again_and_the_log_names_them(tmp_path, caplog):
    caplog.set_level("INFO")
    path = tmp_path / "numbers"
    path.write_text("1 2")
    numbers = _numbers(path)
    assert numbers.current() is numbers.current()  # not read again while the file is as it was
    path.write_text("1 2 3")
    assert numbers.current() == [1, 2, 3]
    assert caplog.messages == [f"{path}: read again"]


@pytest.mark.parametrize("spoil", [lambda path: path.write_text("1 two"), lambda path: path.unlink()])
def test_the_earlier_content_stays_while_the_files_are_faulty_and_the_log_says_so_once(tmp_path, caplog, spoil):
    path = tmp_path / "numbers"
    path.write_text("1 2")
    numbers = _numbers(path)
    spoil(path)
    assert [numbers.current(), numbers.current()] == [[1, 2], [1, 2]]
    assert len(caplog.messages) == 1
    assert caplog.messages[0].endswith("; the earlier numbers stay")
    path.write_text("3 4")
    assert numbers.current() == [3, 4]


def test_files_that_are_faulty_at_first_are_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        _numbers(tmp_path / "none")

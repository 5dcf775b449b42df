"""Parts of a file, read one by one, give the lines of the whole."""

import hashlib
import zipfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.errors import InputError
from trainer.importing import units
from trainer.importing.units import InputFile, Unit, UnitReader, units_of
from trainer.vignettes import source
from trainer.vignettes.source import LineReader

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

LINES = st.lists(st.sampled_from([b"", b" ", b"a", b"bc" * 9, b"\xef\xbb\xbfd", b"\xff"]))
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n"])


def input_file(path):
    return InputFile(3, str(path), path.name)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("units") / "in.jsonl"


@given(
    content=st.builds(lambda lines, end, last: end.join(lines) + last, LINES, ENDS, st.sampled_from([b"", b"\n"])),
    size=st.integers(1, 40),
    piece=st.integers(1, 60),
)
@example(content=b"", size=1, piece=1)
@example(content=b"\n\n\n", size=1, piece=8)  # three ends of units in one piece that is read
@example(content=b"\xef\xbb\xbf\r\n\xef\xbb\xbfa", size=4, piece=4)
def test_the_lines_of_all_units_are_those_of_the_file(path, content, size, piece):
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "UNIT_BYTES", size)
        patch.setattr(units, "MAX_LINE_BYTES", piece)
        parts = list(units_of(input_file(path)))
    lines = [line for unit in parts for line in UnitReader(unit, headed=False)]
    assert lines == [line._replace(file="in.jsonl") for line in LineReader(path)]
    assert {unit.sha256 for unit in parts} == {hashlib.sha256(content).hexdigest()}
    assert all(unit.end - unit.start >= size for unit in parts[:-1])
    assert sorted(parts, key=lambda unit: unit.name) == parts


def test_a_headed_unit_begins_with_the_first_line_of_the_file(path, monkeypatch):
    path.write_bytes(b"\xef\xbb\xbfhead\none\ntwo\n")
    monkeypatch.setattr(units, "UNIT_BYTES", 10)
    parts = [[(line.number, line.content) for line in UnitReader(unit, True)] for unit in units_of(input_file(path))]
    assert parts == [[(1, b"head"), (2, b"one")], [(1, b"head"), (3, b"two")]]


def test_a_line_longer_than_a_unit_is_not_cut(path, monkeypatch):
    monkeypatch.setattr(units, "UNIT_BYTES", 100)
    path.write_bytes(b"a\n" + b"b" * (source.MAX_LINE_BYTES + 50) + b"\nc\n")
    lines = [[line.length for line in UnitReader(unit, headed=False)] for unit in units_of(input_file(path))]
    assert lines == [[1, source.MAX_LINE_BYTES + 50], [1]]


def test_an_archive_is_one_unit_however_long_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(units, "UNIT_BYTES", 1)
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("in.jsonl", "one\ntwo\n")
    [unit] = units_of(input_file(tmp_path / "in.zip"))
    assert [(line.file, line.content) for line in UnitReader(unit, True)] == [("in.zip", b"one"), ("in.zip", b"two")]
    assert unit.sha256 == hashlib.sha256((tmp_path / "in.zip").read_bytes()).hexdigest()


def test_names_sort_as_a_hundred_thousand_files_do():
    last, first = (Unit(InputFile(place, "a", "a"), "", start=start) for place, start in ((99_999, 9), (100_000, 0)))
    assert last.name < first.name


def test_a_faulty_archive_has_the_name_that_the_user_gave(tmp_path):
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("a", "")
        archive.writestr("b", "")
    [unit] = units_of(InputFile(0, str(tmp_path / "in.zip"), "gs://bucket/in.zip"))
    with pytest.raises(InputError, match=r"^gs://bucket/in.zip: expected one file inside the archive, found 2$"):
        list(UnitReader(unit, headed=False))

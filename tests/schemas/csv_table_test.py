import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.csv_table import CsvTable
from schemas.errors import InputError
from schemas.text_file import MAX_LINE_BYTES, lines_of


def table_of(content, name="rows.csv"):
    content = content if isinstance(content, bytes) else content.encode()
    return CsvTable(lines_of(io.BytesIO(content), name), name, ("id", "what"), ("tags",))


def only_row(row):
    [parsed] = table_of(b"id,what\n" + row)
    return parsed


@pytest.mark.parametrize(
    "content",
    [
        "id,what\nv1,a b\n",
        '"id","what"\n"v1","a b"',
        '"id", "what"\n"v1", "a b"',
        " id , what \n v1 ,\ta b\u00a0\n",
        '"sep=|"\nid|what\nv1|a b\n',
        "id,what\nv1,a b,,,\n",
    ],
)
def test_the_header_shows_the_delimiter_and_cells_are_trimmed(content):
    table = table_of(content)

    [row] = table

    assert table.columns == ("id", "what")
    assert (row.cells, row.fault) == (["v1", "a b"], None)
    assert row.line.number == 2 + ("sep" in content)


def test_a_delimiter_inside_quotes_separates_nothing(tmp_path):
    assert only_row(b'"v,1","say ""a"""').cells == ["v,1", 'say "a"']


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "id, what, .*empty"),
        ("id\n", "'what' .* id"),
        ("id,,what\n", "column 2 .*no heading"),
        ("id,what,tags,tags\n", "column 4: 'tags' .*column 3"),
        ("id,what,Tag\n", "column 3: .*'Tag': .*'tags'"),
        ("id,what,clinician\n", "column 3: .*'clinician': .* id, what, tags"),
        ('id,"wh\nat"\n', "quoted cell"),
        ("id,what\rv1,a\r", "carriage return"),
        ("id,wh\u00e4t\n".encode("latin-1"), "UTF-8 at byte 5"),
        (b"id\x00,what\n", "zero byte"),
        (b"id," + b"x" * MAX_LINE_BYTES, "longer than"),
    ],
)
def test_another_header_is_one_error_that_says_what_to_do(content, message):
    with pytest.raises(InputError, match=rf"rows\.csv: line 1: .*{message}") as raised:
        table_of(content)

    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("rows.csv", "id,what\n".encode("utf-16"), "UTF-16"),
        ("rows.csv", gzip.compress(b"id,what\n"), "gzip"),
        ("rows.xlsx", b"PK\x03\x04", "workbook"),
        ("rows.ODS", b"PK\x03\x04", "workbook"),
    ],
)
def test_another_kind_of_file_is_named(name, content, fault):
    with pytest.raises(InputError, match=f"^{name}: .*{fault}"):
        table_of(content, name=name)


@pytest.mark.parametrize(
    ("row", "cells", "fault"),
    [
        (b"v1", ["v1"], "2 columns (id, what), found 1"),
        (b"v1,a,,b,", ["v1", "a", "", "b"], "2 columns (id, what), found 4"),
        (b'v1,"a', ["v1"], "quoted cell"),
        (b'"v1,a', [], "quoted cell"),
        (b'v1,"a"b', ["v1"], "CSV"),
        (b"v1,caf\xe9", ["v1"], "UTF-8 at byte 6"),
        (b"v1,a\rv2,b", ["v1", "a\\rv2"], "carriage return"),
        (b"v1," + b"a" * 200_000, [], "field limit"),
        (b"v1," + b"a" * MAX_LINE_BYTES, ["v1"], "longer than"),
    ],
)
def test_a_row_that_cannot_be_read_has_a_fault_and_the_cells_that_can_be_told(row, cells, fault):
    parsed = only_row(row)

    assert parsed.cells == cells
    assert fault in parsed.fault


@pytest.mark.parametrize("row", [b"", b"  ", b",", b" , ", b",,,,", b'"",""'])
def test_rows_without_content_are_blank(row):
    assert only_row(row + b"\n") is None


@given(st.binary(max_size=80))
def test_whatever_the_bytes_each_line_is_a_row_a_fault_or_blank(content):
    rows = list(table_of(b"id,what\n" + content))

    assert len(rows) == content.count(b"\n") + (content[-1:] not in (b"", b"\n"))
    for row in filter(None, rows):
        assert row.fault is not None or len(row.cells) == 2
        assert row.fault is None or row.fault.isprintable()


def test_as_records_a_faulty_row_is_an_error_that_names_its_line():
    records = table_of("sep=;\nid;what\n\nv1;a\nv2\n").records()

    assert next(records) == (4, {"id": "v1", "what": "a"})
    with pytest.raises(InputError, match=r"^rows\.csv: line 5: .*2 columns"):
        next(records)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import InputError
from trainer.importing.csv_table import CsvTable
from trainer.vignettes.source import MAX_LINE_BYTES, LineReader


def table_of(tmp_path, content, required=("id", "what"), optional=("tags",), name="rows.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return CsvTable(LineReader(path), required, optional)


def only_row(tmp_path, row):
    [parsed] = table_of(tmp_path, b"id,what\n" + row)
    return parsed


@pytest.mark.parametrize(
    "content",
    [
        "id,what\nv1,a b\n",
        "id;what\nv1;a b\n",
        "id\twhat\nv1\ta b\n",
        "\ufeffid;what\r\nv1;a b\r\n",
        '"id","what"\n"v1","a b"',
        '"id", "what"\n"v1", "a b"',
        " id , what \n v1 ,\ta b\u00a0\n",
    ],
    ids=[
        "comma",
        "semicolon",
        "tab",
        "byte order mark and CR LF",
        "quotes",
        "quotes after a blank",
        "white space around cells",
    ],
)
def test_the_header_shows_the_delimiter_and_cells_are_trimmed(tmp_path, content):
    table = table_of(tmp_path, content)

    [row] = table

    assert table.columns == ("id", "what")
    assert (row.cells, row.fault, row.line.number) == (["v1", "a b"], None, 2)


def test_a_delimiter_inside_quotes_separates_nothing(tmp_path):
    assert only_row(tmp_path, b'"v,1","say ""a"""').cells == ["v,1", 'say "a"']


def test_columns_may_stand_in_any_order(tmp_path):
    table = table_of(tmp_path, "tags;what;id\n")

    assert [table.place(column) for column in ("id", "what", "tags", "none")] == [2, 1, 0, None]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected a header with the columns id, what, found an empty line"),
        ("\nid,what\n", "expected a header with the columns id, what, found an empty line"),
        ("id\n", "separated by commas, semicolons or tabs; 'what' is missing in id"),
        ("id|what\n", r"'id' is missing in id\|what"),
        ("id,what,\n", "column 3 has no heading: add one, or delete the column"),
        ("id,what,tags,tags\n", "column 4: 'tags' is already the heading of column 3: name each column once"),
        ("id,what,Tag\n", "column 3: unknown column 'Tag': did you mean 'tags'?"),
        ("id,what,clinician\n", "column 3: unknown column 'clinician': expected id, what, tags: delete the column"),
        ('id,"wh\nat"\n', "a quoted cell does not end on its line: remove the line break"),
        ("id,what\rv1,a\r", "a carriage return inside the line: save the file with line ends LF or CR LF"),
        ("id,what\n".encode("utf-16"), "UTF-16 text: save the file as CSV UTF-8"),
        ("id,wh\u00e4t\n".encode("latin-1"), "not UTF-8 at byte 5 of the line: save the file as CSV UTF-8"),
        (b"id\x00,what\n", "a zero byte inside the line"),
        (b"id," + b"x" * MAX_LINE_BYTES, "the line is longer than"),
    ],
)
def test_another_header_is_one_error_that_says_what_to_do(tmp_path, content, message):
    with pytest.raises(InputError, match=rf"rows\.csv: line 1: .*{message}") as raised:
        table_of(tmp_path, content)

    assert str(raised.value).isprintable()


@pytest.mark.parametrize("name", ["rows.xlsx", "rows.ODS"])
def test_a_workbook_is_refused_by_name(tmp_path, name):
    with pytest.raises(InputError, match="a workbook, not a CSV file: export the sheet"):
        table_of(tmp_path, b"PK\x03\x04", name=name)


@pytest.mark.parametrize(
    ("row", "cells", "fault"),
    [
        (b"v1", ["v1"], "expected 2 columns (id, what), found 1"),
        (b"v1,a,b", ["v1", "a", "b"], "expected 2 columns (id, what), found 3"),
        (b'v1,"a', ["v1"], "a quoted cell does not end on its line"),
        (b'"v1,a', [], "a quoted cell does not end on its line"),
        (b'v1,"a"b', ["v1"], "not a row of a CSV file: "),
        (b"v1,caf\xe9", ["v1"], "not UTF-8 at byte 6 of the line"),
        (b"v1,a\x00", ["v1"], "a zero byte inside the line"),
        (b"v1,a\rv2,b", ["v1", "a\\rv2"], "a carriage return inside the line"),
        (b"v1," + b"a" * 200_000, [], "not a row of a CSV file: field larger than field limit"),
        (b"v1," + b"a" * MAX_LINE_BYTES, ["v1"], "the line is longer than"),
    ],
)
def test_a_row_that_cannot_be_read_has_a_fault_and_the_cells_that_can_be_told(tmp_path, row, cells, fault):
    parsed = only_row(tmp_path, row)

    assert parsed.cells == cells
    assert parsed.fault.startswith(fault)


@pytest.mark.parametrize("row", [b"", b"  ", b",", b" , ", b",,,,", b'"",""'])
def test_rows_without_content_are_blank(tmp_path, row):
    assert only_row(tmp_path, row + b"\n") is None


def test_a_stray_quote_spoils_only_its_own_line(tmp_path):
    broken, good = table_of(tmp_path, 'id,what\nv1,"a\nv2,b\n')

    assert broken.fault
    assert (good.cells, good.fault) == (["v2", "b"], None)


@given(st.binary(max_size=80))
def test_whatever_the_bytes_each_line_is_a_row_a_fault_or_blank(tmp_path_factory, content):
    rows = list(table_of(tmp_path_factory.mktemp("rows"), b"id,what\n" + content))

    assert len(rows) == content.count(b"\n") + (content[-1:] not in (b"", b"\n"))
    for row in filter(None, rows):
        assert row.fault is not None or len(row.cells) == 2
        assert row.fault is None or row.fault.isprintable()

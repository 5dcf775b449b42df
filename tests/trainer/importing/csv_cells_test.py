import pytest

from schemas.csv_table import Row
from schemas.text_file import Line
from trainer.importing.csv_cells import decision_label, optional_fields, parse_list, parse_presence, stated_id
from trainer.vignettes.vignette import VignetteError


@pytest.mark.parametrize("cell", ["present", "Present", "YES", "true", "TRUE", "1", "1.0", "1,0", "+", "ja", "WAHR"])
def test_spellings_of_present(cell):
    assert parse_presence(cell) is True


@pytest.mark.parametrize("cell", ["absent", "Absent", "No", "false", "FALSE", "0", "0.0", "0,0", "-", "Nein", "FALSCH"])
def test_spellings_of_absent(cell):
    assert parse_presence(cell) is False


@pytest.mark.parametrize("cell", ["", "maybe", "y", "NA", "present?", "\x00", "\u0131"])
def test_other_words_are_refused(cell):
    with pytest.raises(VignetteError, match=r"expected present or absent .*, found ") as raised:
        parse_presence(cell)

    assert str(raised.value).isprintable()


def test_all_numbers_of_a_column_without_a_band_have_the_same_fault():
    """So that the list of rejects shows one line for the column."""
    faults = set()
    for cell in ("36.9", "38,2", "-4", "120"):
        with pytest.raises(VignetteError, match="no band") as raised:
            parse_presence(cell)
        faults.add(str(raised.value))
    assert len(faults) == 1


@pytest.mark.parametrize(
    ("cell", "label"), [("Red", "Red"), ("red", "Red"), ("YELLOW", "Yellow"), ("purple", "purple"), ("", "")]
)
def test_decisions_are_written_in_any_case(cell, label):
    assert decision_label(cell) == label


@pytest.mark.parametrize(
    ("cell", "items"), [("", []), ("a", ["a"]), ("a;b", ["a", "b"]), (" a ; b ", ["a", "b"]), ("a;", ["a", ""])]
)
def test_a_list_has_its_items_between_semicolons(cell, items):
    assert parse_list(cell) == items


@pytest.mark.parametrize(
    ("cells", "fields"),
    [
        ({}, {"split": None, "tags": None}),
        ({"split": "", "tags": ""}, {"split": None, "tags": None}),
        ({"split": "test", "tags": "a;b", "other": "x"}, {"split": "test", "tags": ["a", "b"]}),
    ],
)
def test_an_empty_optional_cell_states_nothing(cells, fields):
    assert optional_fields(cells) == fields


@pytest.mark.parametrize(("cells", "expected"), [(["x", "v1"], "v1"), (["x"], None), ([], None)])
def test_a_row_may_have_no_readable_id(cells, expected):
    assert stated_id(Row(Line("f", 2, 1, b"x"), cells, None), 1) == expected

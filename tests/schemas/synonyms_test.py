import pytest

from schemas import synonyms
from schemas.errors import InputError


@pytest.mark.parametrize(("cell", "phrases"), [("", ()), ("it hurts", ("it hurts",)), ("!a|b", ("!a", "b"))])
def test_a_cell_holds_phrases(cell, phrases):
    assert synonyms.split(cell) == phrases
    assert synonyms.join(phrases) == cell


def test_a_file_has_a_line_for_each_code():
    assert synonyms.parse("code,synonyms\npain,it hurts|Schmerzen\nfever,\n", "synonyms.csv") == {
        "pain": ("it hurts", "Schmerzen"), "fever": (),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("code,said\n", "synonyms.csv: line 1: .*'synonyms' is missing"),
        ("", "synonyms.csv: line 1: expected a header"),
        ("code,synonyms\npain,it hurts\npain,Schmerzen\n", "line 3: 'pain' is on a line above"),
        ("code,synonyms\npain,it hurts,Schmerzen\n", "line 2: expected 2 columns"),
    ],
)
def test_faults_are_named_with_their_line(text, fault):
    with pytest.raises(InputError, match=fault):
        synonyms.parse(text, "synonyms.csv")

import pytest

from schemas import synonyms
from schemas.errors import InputError


def test_a_file_has_a_line_for_each_code():
    assert synonyms.parse("code,synonyms\npain,it hurts|Schmerzen\nfever,\n", "synonyms.csv") == {
        "pain": ("it hurts", "Schmerzen"), "fever": (),
    }  # fmt: skip


def test_a_code_that_comes_twice_is_named_with_its_line():
    with pytest.raises(InputError, match="line 3: 'pain' is already on a line above"):
        synonyms.parse("code,synonyms\npain,it hurts\npain,Schmerzen\n", "synonyms.csv")

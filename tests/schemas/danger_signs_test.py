"""The file of danger signs: what it says, and what is wrong with one."""

import pytest

from schemas import danger_signs
from schemas.danger_signs import DangerSigns
from schemas.errors import InputError
from tests.builders import symptoms

VOCABULARY = symptoms("fever", "rash", "confusion", *"abcdefg")


def test_a_file_lists_for_each_complaint_its_signs_in_order_and_is_read_back_as_it_is_written(tmp_path):
    text = 'fever = [["rash", "confusion"], ["a"]]\nrash = []\n[not_asked]\na = ["confusion", "b"]\n'
    (tmp_path / "signs.toml").write_text(text)
    signs = danger_signs.load(tmp_path / "signs.toml", VOCABULARY)
    assert signs == DangerSigns({"fever": (("rash", "confusion"), ("a",)), "rash": ()}, {"a": ("confusion", "b")})
    assert danger_signs.parse(signs.to_toml(), "copy", VOCABULARY) == signs


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("fever = [[", ["TOML"]),
        ('fever = ["rash"]', ["fever", "rash"]),
        ("fever = [[]]", ["fever", "1 to 6"]),
        ('fever = [["a", "b", "c", "d", "e", "f", "g"]]', ["fever", "1 to 6"]),
        ("fever = [[1]]", ["fever", "1"]),
        ('[fever]\nsigns = ["rash"]', ["fever", "signs"]),
        ('fevr = [["rash"]]', ["fevr", "fever"]),
        ('fever = [["rash"], ["confusio"]]', ["fever", "confusio", "confusion"]),
        ('fever = [["rash"], ["confusion", "rash"]]', ["fever", "rash"]),
        ('fever = [["rash", "fever"]]', ["fever", "fever"]),
        ('[not_asked]\na = "rash"', ["not_asked", "a", "rash"]),
        ('[not_asked]\na = [["rash"]]', ["not_asked", "a", "rash"]),
        ('[not_asked]\nfevr = ["rash"]', ["not_asked", "fevr", "fever"]),
        ('[not_asked]\na = ["rash", "a"]', ["not_asked", "a", "a"]),
    ],
)
def test_a_fault_names_the_file_the_complaint_and_the_code(tmp_path, text, named):
    path = tmp_path / "signs.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"signs\.toml: .*{'.*'.join(named)}"):
        danger_signs.load(path, VOCABULARY)


def test_the_signs_of_this_package_are_for_a_vocabulary_that_has_all_of_their_codes():
    assert danger_signs.packaged(VOCABULARY) is None

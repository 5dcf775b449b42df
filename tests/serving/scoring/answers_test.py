"""What scoring refuses, and what it asks; parity_test.py has that it answers as the server does."""

import numpy as np
import pytest

from schemas.errors import InputError
from serving.engine.saved_model import SavedModelEngine
from serving.scoring.answers import Scorer
from serving.scoring.cases import Cases


@pytest.fixture(scope="module")
def scorer(guarded_base_path):
    return Scorer(SavedModelEngine(guarded_base_path / "4"), 0, allow_unknown_codes=True)


def test_an_unknown_code_is_refused_by_case_and_line(guarded_base_path):
    strict = Scorer(SavedModelEngine(guarded_base_path / "4"), 0, allow_unknown_codes=False)
    cases = Cases(["line 7", "line 8"], ["a", "b"], [["fever"], ["chest_pian"]], [[], []], np.zeros(2, np.int32))
    with pytest.raises(InputError, match=r"^line 8: .*'chest_pian'.*chest_pain") as error:
        strict.encode(cases)
    assert "--allow-unknown-codes" in str(error.value)


def test_a_code_that_is_present_and_absent_is_refused_as_the_server_does(scorer):
    cases = Cases(
        ["record 4", "record 5"], ["a", "b"], [["fever"], ["fever", "smoker"]], [[], ["smoker"]], np.zeros(2, np.int32)
    )
    with pytest.raises(InputError, match=r"^record 5: 'smoker' .*absent"):
        scorer.encode(cases)


def test_questions_are_refused_of_a_version_that_cannot_choose_them(guarded_base_path):
    with pytest.raises(InputError, match="--questions 2: "):
        Scorer(SavedModelEngine(guarded_base_path / "4"), 2, allow_unknown_codes=False)


def test_red_flags_that_are_asked_together_have_a_column(grouping_base_path):
    scorer = Scorer(SavedModelEngine(grouping_base_path / "1"), 2, allow_unknown_codes=False)
    flags = ["fever", "rash", "stiff_neck"]
    asked = np.array([0, 0, 23], np.int32)  # the last is over
    cases = Cases([""] * 3, ["a", "b", "c"], [["headache"]] * 3, [[], flags, []], asked)
    columns = scorer.answer(cases.ids, scorer.encode(cases))
    assert [sorted(codes) for codes in columns["asked_together"]] == [flags, [], []]
    assert columns["next_questions"][0][0] == columns["asked_together"][0][0]
    assert columns["next"][::2] == ["ask", "decide"]

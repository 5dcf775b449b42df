"""The case that a page carries."""

import json

import pytest

from schemas.errors import InputError
from serving.console.case import ABSENT, NOT_KNOWN, PRESENT, Case, Statement

CASE = Case(
    (
        Statement("cough", PRESENT, False, 1),
        Statement("fever", ABSENT, True, 2),
        Statement("smoker", NOT_KNOWN, True, 3),
    )
)


def test_the_last_word_on_a_code_counts_and_an_addition_reopens_the_questions():
    changed = CASE.ending().after(Statement("cough", ABSENT, False))
    assert (changed.present, changed.absent, changed.ended) == ([], ["fever", "cough"], False)


def test_what_is_said_together_is_one_question_and_is_taken_back_at_once():
    answered = CASE.after(Statement("rash", PRESENT, True), Statement("stiff_neck", ABSENT, True))
    assert (answered.present, answered.absent) == (["cough", "rash"], ["fever", "stiff_neck"])
    assert answered.questions_asked == 3
    assert answered.without_last() == CASE
    corrected = answered.after(Statement("rash", ABSENT, False))
    assert (corrected.questions_asked, corrected.without_last().codes) == (3, CASE.codes | {"stiff_neck"})


def test_a_page_gives_back_the_case_that_it_carries_and_of_an_empty_one_nothing_is_taken_back():
    for case in (CASE.ending(), Case((Statement("fièvre'", PRESENT, True),))):
        assert Case.parse(case.to_text()) == case
    assert Case.parse("") == Case().without_last() == Case()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"said": []}',
        '{"said": [["cough", "maybe", false, 1]], "ended": false}',
        '{"said": [["cough", "present", 1, 1]], "ended": false}',
        '{"said": [["", "present", false, 1]], "ended": false}',
        '{"said": [["\\ud800", "present", false, 1]], "ended": false}',  # half a character
        '{"said": [[["cough"], "present", false, 1]], "ended": false}',
        '{"said": [["cough", "present", false, 1], ["cough", "absent", false, 2]], "ended": false}',
        '{"said": [["cough", "present", false, true]], "ended": false}',
        '{"said": [["cough", "present", false]], "ended": false}',
        '{"said": [], "ended": "no"}',
        json.dumps({"said": [[f"c{number}", "present", False, 1] for number in range(2_001)], "ended": False}),
        "[" * 100_000,
    ],
)
def test_a_field_that_holds_no_case_is_refused(text):
    with pytest.raises(InputError, match="hold a case"):
        Case.parse(text)


def test_a_case_is_a_request_to_the_http_api():
    assert CASE.ending().request() == {
        "present": ["cough"],
        "absent": ["fever"],
        "not_to_ask": ["smoker"],
        "questions_asked": 2,
        "no_more_evidence": True,
    }

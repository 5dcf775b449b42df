"""States in JSON, and faults by their place in it."""

import pytest

from serving.errors import Fault, FaultyRequestError
from serving.http.triage_json import in_json, read_state
from serving.messages import state_message


def test_a_state_has_its_codes_and_numbers():
    body = {"present": ["a"], "absent": ["b", "c"], "questions_asked": 2, "max_questions": 5, "no_more_evidence": True}
    expected = state_message(["a"], ["b", "c"], 2, max_questions=5, no_more_evidence=True)
    assert read_state(body) == expected
    assert read_state({}) == state_message()


def test_a_field_that_does_not_exist_is_named_by_its_path():
    with pytest.raises(FaultyRequestError, match=r"states\[2\]\.presence: no such field: expected present, absent"):
        read_state({"presence": []}, "states[2]")


@pytest.mark.parametrize(
    ("field", "list_name", "expected"),
    [
        ("state.evidence[1].code", "", "present[1]"),
        ("state.evidence[2]", "", "absent[0]"),
        ("state.questions_asked", "", "questions_asked"),
        ("state.evidence", "", "present"),
        ("states[0].evidence[3].status", "instances", "instances[0].absent[1]"),
        ("states", "instances", "instances"),
        ("elsewhere", "", "elsewhere"),
    ],
)
def test_a_fault_of_the_message_is_found_in_the_body(field, list_name, expected):
    error = FaultyRequestError([Fault(field, "wrong", "REASON")])
    moved = in_json(error, [{"present": ["a", "b"], "absent": ["c", "d"]}], list_name)
    assert str(moved) == f"{expected}: wrong"

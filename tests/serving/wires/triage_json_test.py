"""States in JSON, and faults by their place in it."""

import pytest

from serving.errors import Fault, FaultyRequestError
from serving.messages import state_message
from serving.wires.triage_json import Patient, State, in_json, to_message


def test_a_state_has_its_codes_and_numbers():
    fields = {"present": ["a"], "absent": ["b", "c"], "questions_asked": 2, "max_questions": 5}
    expected = state_message(["a"], ["b", "c"], 2, max_questions=5, no_more_evidence=True)
    assert to_message(Patient(**fields, no_more_evidence=True, explain=True)) == expected
    assert to_message(State()) == state_message()


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
    moved = in_json(error, [State(present=["a", "b"], absent=["c", "d"])], list_name)
    assert str(moved) == f"{expected}: wrong"

import pytest

from schemas.errors import InputError
from schemas.triage import ACTION_LABELS, DECISION_LABELS, NUM_ACTIONS, NUM_DECISIONS, Action, parse_decision


def test_actions_stand_in_urgency_order_with_ask_last():
    assert ACTION_LABELS == ("Red", "Yellow", "Green", "Blue", "ask")
    assert [int(action) for action in Action] == [0, 1, 2, 3, 4]
    assert (NUM_DECISIONS, NUM_ACTIONS) == (4, 5)


@pytest.mark.parametrize("label", DECISION_LABELS)
def test_a_decision_is_read_back_from_its_label(label):
    assert parse_decision(label).label == label


@pytest.mark.parametrize("label", ["red", "RED", "Red ", "ask", "Orange", "", None, 0, ["Red"]])
def test_anything_else_is_no_triage_decision(label):
    with pytest.raises(InputError, match="not one of Red, Yellow, Green, Blue"):
        parse_decision(label)

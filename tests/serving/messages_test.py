import pytest

from serving.messages import action_label, codes_of, state_message
from triage.v1 import triage_pb2


def test_the_unspecified_action_has_no_name():
    with pytest.raises(ValueError, match="0 is the number of no action"):
        action_label(triage_pb2.TRIAGE_ACTION_UNSPECIFIED)


def test_the_codes_of_a_state_are_those_it_was_made_of():
    assert codes_of(state_message(["b", "a"], ["c"])) == (["b", "a"], ["c"])

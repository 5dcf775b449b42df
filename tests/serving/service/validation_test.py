"""Which evidence states the typed service refuses, and how the message helps."""

import tracemalloc

import pytest

from schemas.errors import InputError
from serving.messages import state_message
from serving.service.validation import RequestLimits, are_clear, check_states
from tests.builders import symptoms
from triage.v1 import triage_pb2

VOCABULARY = symptoms("chest_pain", "fever", "smoker")
STRICT = RequestLimits(VOCABULARY, max_batch=3, max_evidence=4)
LENIENT = RequestLimits(VOCABULARY, max_batch=3, max_evidence=4, allow_unknown_codes=True)


def with_status(code, status):
    return triage_pb2.EvidenceState(evidence=[triage_pb2.Evidence(code=code, status=status)])


def refusal(states, limits, batch=False):
    """The message with which states are refused, "" if they are not."""
    try:
        check_states(states, limits, batch)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("state", "limits", "at_a_glance"),
    [
        (state_message(["fever"]), STRICT, True),
        (state_message([], ["fever"], 99, no_more_evidence=True, max_questions=99), STRICT, True),
        (state_message(["fever", "fever"]), STRICT, False),
        (state_message(["fever", "gout"]), LENIENT, False),
        (state_message(["fever"] * 4), STRICT, False),
        (state_message([]), STRICT, False),
        (state_message(["gout", "x" * 128]), LENIENT, False),
    ],
)
def test_a_clear_state_passes(state, limits, at_a_glance):
    assert refusal([state], limits) == ""
    assert are_clear([state], limits) is at_a_glance


@pytest.mark.parametrize(
    ("state", "limits", "named"),
    [
        (state_message(["chest_pan", "fever"]), STRICT, ["evidence[0].code: ", "'chest_pan'", "chest_pain"]),
        (state_message(["fever", "xyz"], ["x"]), STRICT, ["evidence[1].code: ", "'xyz'", "; state.evidence[2].code: "]),
        (state_message(["fever"], ["smoker", "fever"]), STRICT, ["evidence[2]: 'fever' ", "evidence[0]"]),
        (state_message([""]), LENIENT, ["evidence[0].code: "]),
        # No status is known of the one, and a status of a later protocol of the other.
        (with_status("fever", 0), STRICT, ["evidence[0].status: ", "'fever'", "PRESENT or ABSENT"]),
        (with_status("fever", 7), STRICT, ["evidence[0].status: ", "'fever'", "PRESENT or ABSENT"]),
        (state_message(["fever"], questions_asked=-1), STRICT, ["questions_asked: -1"]),
        (state_message(["fever"], max_questions=-2), STRICT, ["max_questions: -2"]),
        (state_message(["fever"] * 5), STRICT, ["evidence: 5 ", "4"]),
        (state_message(["x" * 129]), LENIENT, ["evidence[0].code: ", "128"]),  # no vocabulary can hold it
    ],
)
def test_a_faulty_state_is_reported_by_its_place(state, limits, named):
    message = refusal([state], limits)
    assert message.startswith(f"state.{named[0]}")
    assert all(each in message for each in named)
    assert not are_clear([state], limits)


def test_the_limit_on_evidence_is_never_less_than_the_vocabulary():
    limits = RequestLimits(VOCABULARY, max_batch=1, max_evidence=1)
    assert refusal([state_message(["fever", "smoker"], ["chest_pain"])], limits) == ""
    assert refusal([state_message(["fever"] * 4)], limits).startswith("state.evidence: 4 ")


def test_many_faults_are_reported_in_part():
    limits = RequestLimits(VOCABULARY, max_batch=1, max_evidence=1000)
    with pytest.raises(InputError) as error:
        check_states([state_message(f"x{number}" for number in range(1000))], limits, batch=False)
    faults = str(error.value).split("; ")
    assert len(faults) == 11
    assert faults[-1] == "and more"


def test_a_state_of_two_million_pieces_is_refused_by_its_length_alone():
    state = triage_pb2.EvidenceState.FromString(b"\x0a\x00" * 2_000_000)  # field 1, as an empty message
    tracemalloc.start()
    try:
        assert not are_clear([state], STRICT)
        assert refusal([state], STRICT).startswith("state.evidence: 2000000 ")
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 1_000_000  # a list of them alone takes 16 MB, and half a minute

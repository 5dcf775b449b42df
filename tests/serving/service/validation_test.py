"""Which evidence states the typed service refuses, and how the message helps."""

import time

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
        (state_message(["gout"]), LENIENT, False),
    ],
    ids=["one piece", "absent only", "repeated", "unknown allowed", "as much as the limit", "nothing", "only unknown"],
)
def test_a_clear_state_passes(state, limits, at_a_glance):
    assert refusal([state], limits) == ""
    assert are_clear([state], limits) is at_a_glance


@pytest.mark.parametrize(
    ("state", "limits", "message"),
    [
        (
            state_message(["chest_pan", "fever"], ["Smokers"]),
            STRICT,
            "state.evidence[0].code: unknown evidence code 'chest_pan': did you mean chest_pain?; "
            "state.evidence[2].code: unknown evidence code 'Smokers': did you mean smoker?",
        ),
        (
            state_message(["xyz"]),
            STRICT,
            "state.evidence[0].code: unknown evidence code 'xyz': see the vocabulary for the known codes",
        ),
        (
            state_message(["fever"], ["smoker", "fever"]),
            STRICT,
            "state.evidence[2]: 'fever' is both present and absent (see evidence[0])",
        ),
        (state_message([""]), LENIENT, "state.evidence[0].code: empty"),
        (
            with_status("fever", triage_pb2.EVIDENCE_STATUS_UNSPECIFIED),
            STRICT,
            "state.evidence[0].status: of 'fever': expected PRESENT or ABSENT; leave out what is not known",
        ),
        (with_status("fever", 7), STRICT, "state.evidence[0].status: of 'fever': expected PRESENT or ABSENT"),
        (state_message(["fever"], questions_asked=-1), STRICT, "state.questions_asked: -1 is negative"),
        (state_message(["fever"], max_questions=-2), STRICT, "state.max_questions: -2 is negative"),
        (state_message(["fever"] * 5), STRICT, "state.evidence: 5 pieces of evidence: the server takes at most 4"),
    ],
    ids=[
        "misspelt",
        "nothing near",
        "conflict",
        "empty code",
        "no status",
        "status of the future",
        "negative questions",
        "negative limit",
        "too much",
    ],
)
def test_a_faulty_state_is_reported_by_its_place(state, limits, message):
    assert refusal([state], limits).startswith(message)
    assert not are_clear([state], limits)


def test_the_limit_on_evidence_is_never_less_than_the_vocabulary():
    limits = RequestLimits(VOCABULARY, max_batch=1, max_evidence=1)
    assert refusal([state_message(["fever", "smoker"], ["chest_pain"])], limits) == ""
    assert "4 pieces of evidence: the server takes at most 3" in refusal([state_message(["fever"] * 4)], limits)


def test_many_faults_are_reported_in_part():
    limits = RequestLimits(VOCABULARY, max_batch=1, max_evidence=1000)
    with pytest.raises(InputError) as error:
        check_states([state_message(f"x{number}" for number in range(1000))], limits, batch=False)
    faults = str(error.value).split("; ")
    assert len(faults) == 11
    assert faults[-1] == "and more"


@pytest.mark.slow  # as it measures
def test_a_state_of_two_million_pieces_is_refused_by_its_length_alone():
    # Field 1 of length 0, two million times. Listing the pieces, as for a state within the limit, took 38 s.
    state = triage_pb2.EvidenceState.FromString(b"\x0a\x00" * 2_000_000)
    begin = time.perf_counter()
    assert not are_clear([state], STRICT)
    assert (
        refusal([state], STRICT)
        == "state.evidence: 2000000 pieces of evidence: the server takes at most 4 in one state"
    )
    assert time.perf_counter() - begin < 1


def test_a_code_that_no_vocabulary_can_hold_is_refused_even_where_unknown_ones_are_allowed():
    assert refusal([state_message(["x" * 128])], LENIENT) == ""
    message = "state.evidence[0].code: 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'... is longer than 128 characters"
    assert refusal([state_message(["x" * 129])], LENIENT) == message

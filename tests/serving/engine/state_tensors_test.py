"""Messages to tensors and back: the answers are those of the signature that takes the messages themselves."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas import features
from serving.engine.state_tensors import MessageEncoder, Wish, to_questions
from serving.messages import state_message
from triage.v1 import triage_pb2

CODES = st.lists(st.sampled_from(["chest_pain", "fever", "smoker", "gout", "code", "", "fièvre"]), max_size=6)
NUMBERS = st.sampled_from([0, 1, 9, 10, 11, 2**31 - 1])
STATES = st.builds(
    state_message,
    CODES,
    CODES,
    NUMBERS,
    no_more_evidence=st.booleans(),
    max_questions=st.one_of(NUMBERS, st.just(-1)),
)


@pytest.mark.parametrize("kind", ["engine", "guarded_engine", "litert_engine", "guarded_litert_engine"])
@given(states=st.lists(STATES, max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_answers_equal_those_of_the_signature_of_messages(request, kind, states):
    engine = request.getfixturevalue(kind)  # the guarded ones have rules and a novelty
    serialized = np.array([state.SerializeToString() for state in states], object)
    expected = [
        triage_pb2.TriageResponse.FromString(answer)
        for answer in engine.predict("triage", {"evidence_states": serialized})["triage_responses"]
    ]
    for message in expected:
        message.model_version = engine.info.model_version
    responses = engine.triage(states)
    for response, message in zip(responses, expected, strict=True):
        np.testing.assert_allclose([q.value for q in response.q_values], [q.value for q in message.q_values], rtol=2e-6)
        assert [q.action for q in response.q_values] == [q.action for q in message.q_values]
        del response.q_values[:]
        del message.q_values[:]
        assert response == message


def test_no_question_is_left_at_the_states_own_limit_or_when_nobody_can_answer(encode):
    states = [
        state_message(["a"], [], 2, max_questions=2),
        state_message(["a"], [], 2, max_questions=3),
        state_message(["a"], [], 2, max_questions=0),
        state_message(["a"], [], 2, no_more_evidence=True),
    ]
    assert encode(states).questions_asked.tolist() == [2**31 - 1, 2, 2, 2**31 - 1]


def test_rules_and_novelty_are_reported(guarded_engine):
    states = [state_message(["fever", "smoker"]), state_message(["fever"], ["smoker"])]
    states += [state_message(["fever"]), state_message([], ["fever"])]
    responses = guarded_engine.triage(states)
    # Q of fever in a smoker: Yellow and ask 3/4 both, and triage comes first. Of fever alone: ask 9/10.
    yellow, red, ask = (triage_pb2.TRIAGE_ACTION_YELLOW, triage_pb2.TRIAGE_ACTION_RED, triage_pb2.TRIAGE_ACTION_ASK)
    fired = [[(rule.rule_id, rule.from_action, rule.to_action) for rule in r.fired_rules] for r in responses]
    assert fired == [[("fever", yellow, yellow), ("hot_smoker", yellow, red)], [], [("fever", ask, ask)], []]
    assert responses[0].fired_rules[1].reason == "Fever in a smoker."
    assert responses[0].action == responses[0].best_triage == triage_pb2.TRIAGE_ACTION_RED
    assert not responses[1].fired_rules
    assert [(r.HasField("novelty"), r.novelty, r.is_novel) for r in responses] == [
        (True, 1.0, True), (True, 1.0, True), (True, 1.0, True), (True, 0.0, False),
    ]  # fmt: skip


PRESENT, ABSENT = triage_pb2.EVIDENCE_STATUS_PRESENT, triage_pb2.EVIDENCE_STATUS_ABSENT


@pytest.fixture(scope="module")
def encode(vocabulary):  # chest_pain, fever, smoker
    return MessageEncoder(vocabulary).encode


def message(*evidence):
    return triage_pb2.EvidenceState(
        evidence=[triage_pb2.Evidence(code=code, status=status) for code, status in evidence]
    )


def test_unknown_codes_are_listed_as_often_as_they_come_and_present_ones_first(encode):
    first = message(("b", ABSENT), ("z", PRESENT), ("fever", ABSENT), ("a", ABSENT), ("y", PRESENT), ("z", PRESENT))
    encoded = encode([first, state_message(["fever"]), state_message([], ["gout", "", "fièvre"])])
    assert encoded.states.tolist() == [[0, -1, 0], [0, 1, 0], [0, 0, 0]]
    assert encoded.unknown_codes.tolist() == [
        [b"z", b"y", b"z", b"b", b"a"],
        [b"", b"", b"", b"", b""],
        [b"gout", "fièvre".encode(), b"", b"", b""],
    ]


def test_conflicting_codes_are_listed_as_often_as_they_are_present_and_have_no_part(encode):
    twice = message(("smoker", PRESENT), ("fever", PRESENT), ("smoker", ABSENT), ("fever", ABSENT), ("smoker", PRESENT))
    # The code before the first cell of a row is unknown; it is not the last cell of the row above.
    encoded = encode([twice, state_message(["gout", "chest_pain"]), state_message(["fever"], ["smoker", "smoker"])])
    assert encoded.states.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, -1]]
    assert encoded.conflicting_codes.tolist() == [[b"smoker", b"fever", b"smoker"], [b"", b"", b""], [b"", b"", b""]]


def test_questions_of_versions_without_groups_are_about_one_code_each(vocabulary):
    """Of three states, the first asks about two codes together, and the last about nothing."""
    values = [[[2, 0], [1, -1], [-1, -1]], np.zeros([3, 2]), np.zeros([3, 2]), np.zeros([3, 2], bool)]
    together = [[2, 1], [-1, -1], [-1, -1]]
    outputs = dict(zip(features.QUESTION, map(np.array, (*values, values[-1], together)), strict=True))
    inputs = {features.STATES: np.zeros([3, 3]), features.NOT_TO_ASK: np.zeros([3, 3], bool)}

    def asked():
        questions = to_questions(outputs, inputs, vocabulary, [Wish(2)] * 3)
        return [[(each.code, list(each.any_of)) for each in row] for row in questions]

    assert asked() == [[("smoker", ["smoker", "fever"]), ("chest_pain", [])], [("fever", [])], []]
    del outputs[features.QUESTION_TOGETHER]
    assert asked() == [[("smoker", []), ("chest_pain", [])], [("fever", [])], []]

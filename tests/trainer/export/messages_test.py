"""triage.v1 messages, taken apart and put together by a graph."""

import pytest
import tensorflow as tf

from trainer.export import messages
from triage.v1 import triage_pb2

PRESENT, ABSENT = triage_pb2.EVIDENCE_STATUS_PRESENT, triage_pb2.EVIDENCE_STATUS_ABSENT


def evidence_state(*evidence, **fields):
    pieces = [triage_pb2.Evidence(code=code, status=status) for code, status in evidence]
    return triage_pb2.EvidenceState(evidence=pieces, **fields)


def decode(*states):
    serialized = [state if isinstance(state, bytes) else state.SerializeToString() for state in states]
    decoded = messages.decode_evidence_states(tf.constant(serialized, tf.string, shape=[len(states)]))
    return {field: tensor.numpy().tolist() for field, tensor in decoded._asdict().items()}


def test_states_of_different_lengths_are_padded():
    decoded = decode(
        evidence_state(("a", PRESENT), ("é", ABSENT), questions_asked=3, max_questions=9),
        evidence_state(("b", ABSENT), no_more_evidence=True),
    )
    assert decoded == {
        "present": [[b"a", b""], [b"", b""]],
        "absent": [[b"", "é".encode()], [b"b", b""]],
        "questions_asked": [3, 0],
        "no_more_evidence": [False, True],
        "max_questions": [9, 0],
    }


def test_an_empty_state_has_the_defaults():
    assert decode(b"") == {
        "present": [[b""]],
        "absent": [[b""]],
        "questions_asked": [0],
        "no_more_evidence": [False],
        "max_questions": [0],
    }


def test_no_states_decode_to_empty_tensors():
    assert decode()["questions_asked"] == []


def test_evidence_without_a_status_is_left_out():
    decoded = decode(evidence_state(("a", triage_pb2.EVIDENCE_STATUS_UNSPECIFIED), ("b", PRESENT)))
    assert (decoded["present"], decoded["absent"]) == ([[b"", b"b"]], [[b"", b""]])


def test_a_code_that_is_not_utf_8_becomes_readable_text():
    state = evidence_state(("ab", PRESENT)).SerializeToString().replace(b"ab", b"a\xff")
    assert decode(state)["present"] == [["a\ufffd".encode()]]


@pytest.mark.parametrize("malformed", [b"\xff\xff", b"\x0a\x05ab", b"\x0a\x02\xff\xff"])
def test_bytes_that_are_not_a_message_fail(malformed):
    with pytest.raises(tf.errors.DataLossError):
        decode(malformed)


def decisions(batch):
    return {
        "q_values": tf.constant([[0.5, 0.25, 0.75, 0.0, 1.0]] * batch, shape=[batch, 5]),
        "action": tf.fill([batch], 4),
        "best_triage": tf.fill([batch], 2),
        "forced": tf.fill([batch], True),
        "unknown_codes": tf.fill([batch, 2], "x"),
        "conflicting_codes": tf.zeros([batch, 1], tf.string),
    }


def encoded(batch, fired_rules=None, **tensors):
    fired = tf.zeros([batch, 0], tf.string) if fired_rules is None else fired_rules
    return messages.encode_responses(decisions(batch) | tensors, fired, "12", "sha256:1").numpy()


def read(serialized):
    return [triage_pb2.TriageResponse.FromString(each) for each in serialized]


def test_responses_read_as_the_message_of_the_same_fields():
    (response,) = read(encoded(1))
    actions = (
        triage_pb2.TRIAGE_ACTION_RED,
        triage_pb2.TRIAGE_ACTION_YELLOW,
        triage_pb2.TRIAGE_ACTION_GREEN,
        triage_pb2.TRIAGE_ACTION_BLUE,
        triage_pb2.TRIAGE_ACTION_ASK,
    )
    values = (0.5, 0.25, 0.75, 0.0, 1.0)
    assert response == triage_pb2.TriageResponse(
        action=triage_pb2.TRIAGE_ACTION_ASK,
        best_triage=triage_pb2.TRIAGE_ACTION_GREEN,
        q_values=[triage_pb2.QValue(action=a, value=v) for a, v in zip(actions, values, strict=True)],
        forced=True,
        unknown_codes=["x", "x"],
        model_version="12",
        vocabulary_fingerprint="sha256:1",
    )


def test_no_responses_encode_to_no_messages():
    assert encoded(0).shape == (0,)


def test_fired_rules_and_novelty_are_in_their_rows():
    fired = messages.encode_fired_rules(
        tf.constant([0, 2, 2], tf.int64),
        tf.constant(3),
        {"rule_id": tf.constant(["a", "a", "b"]), "reason": tf.constant(["x", "x", "y"])},
        {"from_action": tf.constant([4, 2, 1]), "to_action": tf.constant([0, 1, 1])},
    )
    novelty = {"novelty": tf.constant([0.0, 0.5, 1.0]), "is_novel": tf.constant([False, False, True])}
    answers = read(encoded(3, fired, **novelty))
    rule = triage_pb2.FiredRule
    assert [list(answer.fired_rules) for answer in answers] == [
        [rule(rule_id="a", reason="x", from_action=5, to_action=1)],
        [],
        [
            rule(rule_id="a", reason="x", from_action=3, to_action=2),
            rule(rule_id="b", reason="y", from_action=2, to_action=2),
        ],
    ]
    assert [(answer.HasField("novelty"), answer.novelty, answer.is_novel) for answer in answers] == [
        (True, 0.0, False), (True, 0.5, False), (True, 1.0, True),
    ]  # fmt: skip
    assert not read(encoded(1))[0].HasField("novelty")


def test_probabilities_are_in_urgency_order_and_left_out_if_there_are_none():
    probabilities = {
        "p_appropriate": tf.constant([[0.125, 0.25, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0]]),
        "p_safe": tf.constant([[1.0, 0.75, 0.5, 0.25], [1.0, 1.0, 1.0, 1.0]]),
    }
    first, second = read(encoded(2, **probabilities))
    assert list(first.probabilities) == [
        triage_pb2.DecisionProbability(decision=decision, appropriate=appropriate, safe=safe)
        for decision, appropriate, safe in zip(
            (
                triage_pb2.TRIAGE_ACTION_RED,
                triage_pb2.TRIAGE_ACTION_YELLOW,
                triage_pb2.TRIAGE_ACTION_GREEN,
                triage_pb2.TRIAGE_ACTION_BLUE,
            ),
            (0.125, 0.25, 0.5, 0.0),
            (1.0, 0.75, 0.5, 0.25),
            strict=True,
        )
    ]
    assert [probability.appropriate for probability in second.probabilities] == [0, 0, 0, 1]
    assert list(read(encoded(1))[0].probabilities) == []

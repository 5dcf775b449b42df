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


def test_a_code_that_is_not_utf_8_becomes_readable_text():
    state = evidence_state(("ab", PRESENT)).SerializeToString().replace(b"ab", b"a\xff")
    assert decode(state)["present"] == [["a\ufffd".encode()]]


@pytest.mark.parametrize("malformed", [b"\xff\xff", b"\x0a\x05ab", b"\x0a\x02\xff\xff"])
def test_bytes_that_are_not_a_message_fail(malformed):
    with pytest.raises(tf.errors.DataLossError):
        decode(malformed)

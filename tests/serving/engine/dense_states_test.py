"""Messages as state vectors, worked out by hand; state_tensors_test.py compares them with the graph."""

import numpy as np
import pytest

from schemas import features
from serving.engine.dense_states import MessageEncoder, to_questions
from serving.messages import state_message
from triage.v1 import triage_pb2

PRESENT, ABSENT = triage_pb2.EVIDENCE_STATUS_PRESENT, triage_pb2.EVIDENCE_STATUS_ABSENT


@pytest.fixture(scope="module")
def encode(vocabulary):  # chest_pain, fever, smoker
    return MessageEncoder(vocabulary).encode


def message(*evidence):
    return triage_pb2.EvidenceState(
        evidence=[triage_pb2.Evidence(code=code, status=status) for code, status in evidence]
    )


def test_each_message_becomes_a_row(encode):
    encoded = encode([state_message(["smoker"], ["chest_pain"]), state_message([]), state_message(["fever"], [], 4)])
    assert encoded.states.tolist() == [[-1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert encoded.states.dtype == np.float32
    assert encoded.questions_asked.tolist() == [0, 0, 4]
    assert encoded.unknown_codes.shape == encoded.conflicting_codes.shape == (3, 0)


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


def test_evidence_of_no_known_status_is_left_out(encode):
    encoded = encode([message(("fever", 0), ("smoker", 7), ("gout", 0))])
    assert encoded.states.tolist() == [[0, 0, 0]]
    assert encoded.unknown_codes.tolist() == [[b""]]


def test_no_messages_are_no_rows(encode):
    encoded = encode([])
    assert (encoded.states.shape, encoded.questions_asked.shape, encoded.unknown_codes.shape) == ((0, 3), (0,), (0, 0))


def test_questions_of_versions_without_groups_are_about_one_code_each(vocabulary):
    """Of three states, the first asks about two codes together, and the last about nothing."""
    values = [[[2, 0], [1, -1], [-1, -1]], np.zeros([3, 2]), np.zeros([3, 2]), np.zeros([3, 2], bool)]
    together = [[2, 1], [-1, -1], [-1, -1]]
    outputs = dict(zip(features.QUESTION, map(np.array, (*values, values[-1], together)), strict=True))
    inputs = {features.STATES: np.zeros([3, 3]), features.NOT_TO_ASK: np.zeros([3, 3], bool)}

    def asked():
        questions = to_questions(outputs, inputs, vocabulary, 2)
        return [[(each.code, list(each.any_of)) for each in row] for row in questions]

    assert asked() == [[("smoker", ["smoker", "fever"]), ("chest_pain", [])], [("fever", [])], []]
    del outputs[features.QUESTION_TOGETHER]
    assert asked() == [[("smoker", []), ("chest_pain", [])], [("fever", [])], []]

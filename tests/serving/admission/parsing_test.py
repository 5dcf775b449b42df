"""How many messages may be nested in a request, which is counted before they are made."""

import pytest
from tensorflow_serving.apis import predict_pb2

from schemas.errors import InputError
from serving.admission.parsing import MOST_MESSAGES, check_nesting
from serving.messages import state_message
from triage.v1 import triage_service_pb2

TRIAGE, BATCH = triage_service_pb2.TriageRequest, triage_service_pb2.BatchTriageRequest
EMPTY = b"\x0a\x00"  # field 1, of length 0


def field(number, content):
    """A field with bytes as protobuf writes it."""
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


ENTRY = field(2, field(1, b"a"))  # of the map `inputs`: it counts as 16 messages, and its key as one


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (TRIAGE, field(1, EMPTY * (MOST_MESSAGES - 1))),  # and the state itself
        (BATCH, EMPTY * MOST_MESSAGES),
        (predict_pb2.PredictRequest, ENTRY * 52_941),  # 52,941 * 17 = 899,997
        # An entry (16), its tensor (16), the shape in that (16), and its dimensions, all of which have the same tag.
        (predict_pb2.PredictRequest, field(2, field(2, field(2, b"\x12\x00" * (MOST_MESSAGES // 16 - 3))))),
    ],
    ids=["pieces", "states", "entries of a map", "dimensions of a tensor"],
)
def test_as_many_messages_as_the_limit_pass_and_a_few_more_are_refused(kind, data):
    check_nesting(kind, data)
    with pytest.raises(InputError, match="900000 messages"):
        check_nesting(kind, data + field(1, b"") * 4 + ENTRY)


def test_a_batch_in_which_each_length_looks_like_a_tag_passes():
    # Codes of 10 characters, so that three bytes of each piece are 10, the tag of field 1: 262,080 pieces seem 786,240.
    batch = BATCH(states=[state_message([f"code_{number:05d}" for number in range(280)])] * 936)
    check_nesting(BATCH, batch.SerializeToString())

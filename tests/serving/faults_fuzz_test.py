"""Unusual messages are answered or refused with the right status, never with an internal error.

TRIAGE_FUZZED_MESSAGES is their number in all.
"""

import collections
import contextlib
import os

import grpc
import pytest
from google.protobuf import descriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensorflow_serving.apis import get_model_status_pb2, predict_pb2

from schemas import features
from serving.messages import state_message
from triage.v1 import triage_pb2, triage_service_pb2
from triage_client import evidence_state

TARGETS = {
    "/triage.v1.TriageService/Triage": triage_service_pb2.TriageRequest,
    "/triage.v1.TriageService/BatchTriage": triage_service_pb2.BatchTriageRequest,
    "/triage.v1.TriageService/Interview": triage_service_pb2.InterviewRequest,
    "/tensorflow.serving.PredictionService/Predict": predict_pb2.PredictRequest,
    "/tensorflow.serving.ModelService/GetModelStatus": get_model_status_pb2.GetModelStatusRequest,
}
MESSAGES = int(os.environ.get("TRIAGE_FUZZED_MESSAGES", "300"))
EACH = settings(
    max_examples=-(-MESSAGES // (2 * len(TARGETS) + 1)),  # in each of the tests below
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
FAULTS = {
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}

# Values that pass the first checks and so reach the code behind them.
STATE = state_message(["fever"]).SerializeToString()
WORDS = ["triage", "stable", "serving_default", "chest_pain", "fever", "smoker", features.TRIAGE]
WORDS += [features.EVIDENCE_STATES, features.PRESENT, features.ABSENT, features.QUESTIONS_ASKED]
SCALARS = {
    descriptor.FieldDescriptor.CPPTYPE_INT32: st.integers(-1, 4) | st.integers(-(2**31), 2**31 - 1),
    descriptor.FieldDescriptor.CPPTYPE_INT64: st.integers(-1, 4) | st.integers(-(2**63), 2**63 - 1),
    descriptor.FieldDescriptor.CPPTYPE_UINT32: st.integers(0, 4) | st.integers(0, 2**32 - 1),
    descriptor.FieldDescriptor.CPPTYPE_UINT64: st.integers(0, 4) | st.integers(0, 2**64 - 1),
    descriptor.FieldDescriptor.CPPTYPE_DOUBLE: st.floats(),
    descriptor.FieldDescriptor.CPPTYPE_FLOAT: st.floats(width=32),
    descriptor.FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
}


def value(field, depth):
    """Returns what draws a value of one field, of a list one element."""
    if field.type == field.TYPE_MESSAGE:
        return content(field.message_type, depth - 1)
    if field.type == field.TYPE_STRING:
        return st.sampled_from(WORDS) | st.text(max_size=20)
    if field.type == field.TYPE_BYTES:
        return st.just(STATE) | st.binary(max_size=40)
    if field.type == field.TYPE_ENUM:
        return st.sampled_from([number.number for number in field.enum_type.values])
    return SCALARS[field.cpp_type]


def content(message, depth=4):
    """Returns what draws the fields of a message, as its constructor takes them."""
    fields = {}
    for field in message.fields:
        if field.type == field.TYPE_MESSAGE and depth <= 0:
            continue
        if field.type == field.TYPE_MESSAGE and field.message_type.GetOptions().map_entry:
            key, entry = field.message_type.fields
            fields[field.name] = st.dictionaries(value(key, depth), value(entry, depth), max_size=4)
        elif field.is_repeated:
            fields[field.name] = st.lists(value(field, depth), max_size=4)
        else:
            fields[field.name] = value(field, depth)
    return st.fixed_dictionaries({}, optional=fields)


def refusal(channel, method, requests):
    """Sends raw bytes, and returns the status of the call."""
    if method.endswith("/Interview"):
        call = channel.stream_stream(method)(iter(requests), timeout=60)
        with contextlib.suppress(grpc.RpcError):
            collections.deque(call, maxlen=0)  # the status follows the answers
    else:
        call = channel.unary_unary(method).future(requests[0], timeout=60)
    return call.code()


SEEDS = {
    "/triage.v1.TriageService/Triage": [triage_service_pb2.TriageRequest(state=state_message(["fever"], ["smoker"]))],
    "/triage.v1.TriageService/BatchTriage": [
        triage_service_pb2.BatchTriageRequest(states=[state_message(["fever"]), state_message(["chest_pain"])])
    ],
    "/triage.v1.TriageService/Interview": [
        triage_service_pb2.InterviewRequest(evidence=state_message(["fever"]).evidence[0]),
        triage_service_pb2.InterviewRequest(not_known=True),
    ],
    "/tensorflow.serving.PredictionService/Predict": [
        predict_pb2.PredictRequest(
            model_spec={"name": "triage", "signature_name": features.TRIAGE},
            inputs={
                features.EVIDENCE_STATES: {
                    "dtype": "DT_STRING", "tensor_shape": {"dim": [{"size": 1}]}, "string_val": [STATE],
                }
            },
        )
    ],
    "/tensorflow.serving.ModelService/GetModelStatus": [
        get_model_status_pb2.GetModelStatusRequest(model_spec={"name": "triage", "version": {"value": 3}})
    ],
}  # fmt: skip


@st.composite
def damaged(draw, whole):
    """A message of the method, in which a few bytes are changed, removed or put in."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(data)))
        data[place : place + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
    return bytes(data)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("method", "messages"), SEEDS.items())
def test_damaged_messages_are_answered_or_refused_with_the_right_status(channel, method, messages):
    @EACH
    @given(requests=st.tuples(*(damaged(each.SerializeToString()) for each in messages)))
    def answer(requests):
        assert refusal(channel, method, requests) not in FAULTS

    answer()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("method", "message"), TARGETS.items())
def test_messages_of_any_content_are_answered_or_refused_with_the_right_status(channel, client, method, message):
    @EACH
    @given(fields=st.lists(content(message.DESCRIPTOR), min_size=1, max_size=3))
    def answer(fields):
        requests = [message(**each).SerializeToString() for each in fields]
        assert refusal(channel, method, requests) not in FAULTS

    answer()
    assert client.triage(evidence_state(["chest_pain"])).action == triage_pb2.TRIAGE_ACTION_RED


@st.composite
def tensors(draw, info):
    """Tensors that state the right type, and mostly the right rank, with content that may not fit."""
    rank = len(info.tensor_shape.dim)
    sizes = draw(
        st.lists(st.integers(0, 3), min_size=rank, max_size=rank) | st.lists(st.integers(-2, 2**40), max_size=3)
    )
    content = {
        "string_val": st.lists(
            st.sampled_from([b"", b"fever", b"chest_pain", STATE]) | st.binary(max_size=20), max_size=9
        ),
        "int_val": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9),
        "float_val": st.lists(st.floats(width=32), max_size=9),
        "tensor_content": st.binary(max_size=40),
    }
    fields = draw(st.fixed_dictionaries({}, optional=content))
    return {"dtype": info.dtype, "tensor_shape": {"dim": [{"size": size} for size in sizes]}, **fields}


@pytest.mark.timeout(3600)
def test_tensors_of_any_content_for_the_inputs_of_the_model_are_answered_or_refused(channel, engine):
    signatures = {name: entry.inputs for name, entry in engine.signatures.items() if not name.startswith("__")}

    @EACH
    @given(st.sampled_from(sorted(signatures)), st.data())
    def answer(name, data):
        inputs = {alias: data.draw(tensors(info)) for alias, info in sorted(signatures[name].items())}
        request = predict_pb2.PredictRequest(model_spec={"name": "triage", "signature_name": name}, inputs=inputs)
        code = refusal(channel, "/tensorflow.serving.PredictionService/Predict", [request.SerializeToString()])
        assert code not in FAULTS

    assert set(signatures) == {features.TRIAGE, features.SERVING_DEFAULT, features.STATE}
    answer()

"""Predict through the wire with the stubs of tensorflow-serving-api: the hand-set answers, and what is refused."""

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_service_pb2_grpc

from schemas.answer import ANSWER
from serving.messages import state_message
from tests.builders import predict_request as request

BY_CODE = {
    "present": np.array([["fever", "gout"], ["chest_pain", ""]], object),
    "absent": np.array([["smoker"], [""]], object),
    "questions_asked": np.array([0, 10], np.int32),
}


@pytest.fixture
def predict(channel):
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    return lambda message: stub.Predict(message, timeout=30)


@pytest.fixture
def refusal(predict):
    def call(message):
        with pytest.raises(grpc.RpcError) as error:
            predict(message)
        return error.value.code(), error.value.details()

    return call


def array(response, name):
    return tf.make_ndarray(response.outputs[name])


def test_the_default_signature_answers_evidence_by_code(predict, hand_set):
    response = predict(request(BY_CODE))
    fever_q = np.array(hand_set.fever_q)
    # sigmoid(0 + L) for Blue and sigmoid(2 L + L) for ask, as the absent smoker adds L to both.
    fever_q[3:] = 0.75, 27 / 28
    optional = {"rules_fired", "model_action", "model_best_triage", "novelty", "is_novel", "p_appropriate", "p_safe"}
    assert set(response.outputs) == {tensor.name for tensor in ANSWER} - optional
    np.testing.assert_allclose(array(response, "q_values"), [fever_q, hand_set.chest_pain_q], atol=1e-6)
    assert array(response, "action_label").tolist() == [b"ask", b"Red"]
    assert array(response, "forced").tolist() == [False, True]
    assert array(response, "unknown_codes").tolist() == [[b"gout"], [b""]]
    assert response.model_spec.name == "triage"
    assert response.model_spec.signature_name == "serving_default"
    assert response.model_spec.version.value == 3


def test_values_stand_where_clients_without_tensorflow_read_them(predict):
    outputs = predict(request(BY_CODE)).outputs
    assert len(outputs["q_values"].float_val) == 10
    assert outputs["action"].int_val == [4, 0]
    assert outputs["forced"].bool_val == [False, True]
    assert outputs["action_label"].string_val == [b"ask", b"Red"]


def test_an_output_filter_leaves_the_others_out(predict):
    response = predict(request(BY_CODE, outputs=["forced", "action"]))
    assert set(response.outputs) == {"forced", "action"}


def test_an_empty_batch_gets_empty_outputs(predict):
    empty = {"states": np.zeros([0, 3], np.float32), "questions_asked": np.zeros([0], np.int32)}
    assert array(predict(request(empty, "state")), "q_values").shape == (0, 5)


@pytest.mark.parametrize("name", ["nothing", "__saved_model_init_op"])
def test_a_signature_that_cannot_be_called_is_a_failed_precondition(refusal, name):
    code, details = refusal(request(BY_CODE, name))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert name in details


def without(name):
    return {alias: value for alias, value in BY_CODE.items() if alias != name}


def states(rows, questions_asked):
    return request({"states": np.float32(rows), "questions_asked": np.int32(questions_asked)}, "state")


def messages(*serialized):
    return request({"evidence_states": np.array(serialized, object)}, "triage")


def stated(dtype, *shape, **values):
    """A request whose input `present` says its type and shape by itself, which may be a lie."""
    message = request(without("present"))
    tensor = message.inputs["present"]
    tensor.dtype = tf.as_dtype(dtype).as_datatype_enum if isinstance(dtype, tf.DType) else dtype
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    for field, value in values.items():
        getattr(tensor, field).extend(value)
    return message


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (request(without("absent")), "Sent extra: {}. Missing but required: {absent}."),
        (request(BY_CODE | {"age": np.int32([1, 2])}), "Sent extra: {age}. Missing but required: {}."),
        (request(without("absent") | {"abs": np.int32([1, 2])}), "Sent extra: {abs}. Missing but required: {absent}."),
        (request(BY_CODE | {"questions_asked": np.float32([0, 0])}), "questions_asked to be int32 but float"),
        (request(BY_CODE | {"present": np.int64([[1], [2]]) << 40}), "present to be string but int64"),
        (states([[0, 0]], [0]), "states to have shape [?,3] but [1,2]"),
        (request(BY_CODE | {"questions_asked": np.int32(0)}), "questions_asked to have shape [?] but []"),
        (request(BY_CODE | {"absent": np.array([["smoker"]] * 3, object)}), "absent 3, present 2, questions_asked 2"),
        (states([[0, 0, 0]], [3, 9]), "states 1"),
        (states([[0, 0, 0]], []), "states 1"),
        (states([[np.nan, 0, 0]], [0]), "states to be finite"),
        (states([[0, -np.inf, 0]], [0]), "states to be finite"),
        (states([[1, 0, 0.5]], [0]), "states to be -1, 0 or 1"),
        (states([[0, 0, 1e38]], [0]), "states to be -1, 0 or 1"),
        (request(BY_CODE, outputs=["q"]), "not found in signature: q "),
        (request(BY_CODE, outputs=["action", "action"]), "duplicate output tensor alias: action"),
        (request(BY_CODE | {"questions_asked": np.zeros(5, np.int32)}), "questions_asked: a batch of 5"),
        (messages(state_message(["x"] * 6).SerializeToString()), "evidence_states[0]: 6 pieces"),
        (stated(tf.string, 2, 10**12, string_val=[b""]), "tensors of 16000000000024 bytes"),
        (stated(tf.string, 2, -1, string_val=[b""]), "present to have shape [?,?] but [2,-1]"),
        (stated(tf.string, 2, 1, string_val=[b"a", b"b", b"c"]), "tensor parsing error: present"),
        (stated(99, 2, 1), "present to be string but DataType 99"),
    ],
)
def test_what_does_not_fit_the_signature_is_an_invalid_argument(refusal, message, named):
    code, details = refusal(message)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert named in details

"""The Open Inference Protocol through the wire, over gRPC."""

import grpc
import numpy as np
import pytest

from serving.messages import state_message
from triage.open_inference import inference_pb2, inference_pb2_grpc
from triage.v1 import triage_pb2


@pytest.fixture
def stub(channel):
    return inference_pb2_grpc.GRPCInferenceServiceStub(channel)


def request(raw=False, **fields):
    """Fever, and chest pain after ten questions, by code."""
    message = inference_pb2.ModelInferRequest(model_name="triage", **fields)
    present, absent = [b"fever", b"gout", b"chest_pain", b""], [b"smoker", b""]
    if raw:
        message.inputs.add(name="present", datatype="BYTES", shape=[2, 2])
        message.inputs.add(name="absent", datatype="BYTES", shape=[2, 1])
        message.inputs.add(name="questions_asked", datatype="INT32", shape=[2])
        for codes in (present, absent):
            message.raw_input_contents.append(b"".join(len(code).to_bytes(4, "little") + code for code in codes))
        message.raw_input_contents.append(np.int32([0, 10]).tobytes())
    else:
        message.inputs.add(name="present", datatype="BYTES", shape=[2, 2], contents={"bytes_contents": present})
        message.inputs.add(name="absent", datatype="BYTES", shape=[2, 1], contents={"bytes_contents": absent})
        message.inputs.add(name="questions_asked", datatype="INT32", shape=[2], contents={"int_contents": [0, 10]})
    return message


def test_server_and_model_are_ready(stub):
    assert stub.ServerLive(inference_pb2.ServerLiveRequest(), timeout=30).live
    assert stub.ServerReady(inference_pb2.ServerReadyRequest(), timeout=30).ready
    ready = {
        (name, version): stub.ModelReady(inference_pb2.ModelReadyRequest(name=name, version=version), timeout=30).ready
        for name, version in (
            ("triage", ""),
            ("triage", "3"),
            ("triage", "4"),
            ("other", ""),
            ("triage", "x"),
            ("", ""),
        )
    }
    assert [key for key, is_ready in ready.items() if is_ready] == [("triage", ""), ("triage", "3")]


def test_the_metadata_describe_the_default_signature(stub):
    assert stub.ServerMetadata(inference_pb2.ServerMetadataRequest(), timeout=30).name == "dyqn-triage"
    model = stub.ModelMetadata(inference_pb2.ModelMetadataRequest(name="triage"), timeout=30)
    assert (model.name, model.versions, model.platform) == ("triage", ["3"], "tensorflow_savedmodel")
    inputs = {each.name: (each.datatype, list(each.shape)) for each in model.inputs}
    assert inputs == {"absent": ("BYTES", [-1, -1]), "present": ("BYTES", [-1, -1]), "questions_asked": ("INT32", [-1])}
    outputs = {each.name: each.datatype for each in model.outputs}
    assert (outputs["q_values"], outputs["forced"], outputs["action_label"]) == ("FP32", "BOOL", "BYTES")


def test_an_inference_gets_the_hand_set_answers(stub, hand_set):
    answer = stub.ModelInfer(request(id="r-1"), timeout=30)
    assert (answer.model_name, answer.model_version, answer.id) == ("triage", "3", "r-1")
    outputs = {each.name: each for each in answer.outputs}
    assert list(outputs["q_values"].shape) == [2, 5]
    assert outputs["q_values"].contents.fp32_contents[5:] == pytest.approx(hand_set.chest_pain_q, abs=1e-6)
    assert list(outputs["action_label"].contents.bytes_contents) == [b"ask", b"Red"]
    assert list(outputs["forced"].contents.bool_contents) == [False, True]
    assert list(outputs["unknown_codes"].contents.bytes_contents) == [b"gout", b""]


def test_raw_inputs_get_raw_outputs_in_the_order_that_was_asked_for(stub):
    message = request(raw=True, model_version="3", outputs=[{"name": "forced"}, {"name": "action"}])
    answer = stub.ModelInfer(message, timeout=30)
    assert [each.name for each in answer.outputs] == ["forced", "action"]
    assert not answer.outputs[0].HasField("contents")
    assert list(answer.raw_output_contents) == [b"\x00\x01", np.int32([4, 0]).tobytes()]


def test_a_parameter_names_another_signature(stub):
    state = state_message(["fever"], questions_asked=10).SerializeToString()
    message = inference_pb2.ModelInferRequest(
        model_name="triage",
        parameters={"signature_name": {"string_param": "triage"}},
        inputs=[
            {"name": "evidence_states", "datatype": "BYTES", "shape": [1], "contents": {"bytes_contents": [state]}}
        ],
    )
    (output,) = stub.ModelInfer(message, timeout=30).outputs
    answer = triage_pb2.TriageResponse.FromString(output.contents.bytes_contents[0])
    assert (answer.action, answer.forced) == (triage_pb2.TRIAGE_ACTION_YELLOW, True)


def changed(**fields):
    message = request(raw=True)
    for name, value in fields.items():
        field = getattr(message, name)
        if isinstance(value, str):
            setattr(message, name, value)
        else:
            field.MergeFrom(value)
    return message


INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("message", "code", "complaint"),
    [
        (changed(model_name="other"), NOT_FOUND, "Latest(other)"),
        (changed(model_version="4"), NOT_FOUND, "Specific(triage, 4)"),
        (changed(model_version="stable"), NOT_FOUND, "Could not find version stable of model triage"),
        (changed(outputs=[inference_pb2.ModelInferRequest.InferRequestedOutputTensor(name="q")]), INVALID, "alias"),
        (changed(raw_input_contents=[b""]), INVALID, "expected one for each of the 3 inputs, got 4"),
        (inference_pb2.ModelInferRequest(model_name="triage"), INVALID, "Missing but required: {absent,present"),
        (inference_pb2.ModelInferRequest(), INVALID, "ModelSpec has no name specified."),
    ],
)
def test_what_does_not_fit_is_refused(stub, message, code, complaint):
    with pytest.raises(grpc.RpcError) as error:
        stub.ModelInfer(message, timeout=30)
    assert error.value.code() is code
    assert complaint in error.value.details()


def test_settings_that_would_change_the_answer_are_refused(stub):
    message = request()
    message.inputs[0].parameters["shared_memory_region"].string_param = "region"
    with pytest.raises(grpc.RpcError, match="present: expected no parameters, got shared_memory_region"):
        stub.ModelInfer(message, timeout=30)
    message = request()
    message.parameters["signature_name"].string_param = "nothing"
    with pytest.raises(grpc.RpcError) as error:
        stub.ModelInfer(message, timeout=30)
    assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION


def test_a_batch_above_the_limit_is_refused(stub):
    message = inference_pb2.ModelInferRequest(
        model_name="triage", parameters={"signature_name": {"string_param": "state"}}
    )
    message.inputs.add(name="states", datatype="FP32", shape=[5, 3], contents={"fp32_contents": [0.0] * 15})
    message.inputs.add(name="questions_asked", datatype="INT32", shape=[5], contents={"int_contents": [0] * 5})
    with pytest.raises(grpc.RpcError, match="a batch of 5: the server takes at most 4"):
        stub.ModelInfer(message, timeout=30)

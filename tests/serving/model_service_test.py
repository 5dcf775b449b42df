"""ModelService through the wire, with the stubs of tensorflow-serving-api."""

import grpc
import pytest
from tensorflow_serving.apis import get_model_status_pb2, model_pb2, model_service_pb2_grpc

AVAILABLE = get_model_status_pb2.ModelVersionStatus.AVAILABLE


@pytest.fixture
def stub(channel):
    return model_service_pb2_grpc.ModelServiceStub(channel)


def request(name="triage", version=None, label=None):
    spec = model_pb2.ModelSpec(name=name)
    if version is not None:
        spec.version.value = version
    if label is not None:
        spec.version_label = label
    return get_model_status_pb2.GetModelStatusRequest(model_spec=spec)


@pytest.mark.parametrize("message", [request(), request(version=3), request(label="stable")])
def test_a_loaded_version_is_available(stub, message):
    (status,) = stub.GetModelStatus(message, timeout=30).model_version_status
    assert (status.version, status.state) == (3, AVAILABLE)
    assert status.HasField("status")
    assert (status.status.error_code, status.status.error_message) == (0, "")


@pytest.mark.parametrize(
    ("message", "code", "details"),
    [
        (request("other"), grpc.StatusCode.NOT_FOUND, "Could not find any versions of model other"),
        (request("other", 3), grpc.StatusCode.NOT_FOUND, "Could not find version 3 of model other"),
        (request(version=7), grpc.StatusCode.NOT_FOUND, "Could not find version 7 of model triage"),
        (request(label="x"), grpc.StatusCode.INVALID_ARGUMENT, "Unrecognized servable version label: x"),
        (get_model_status_pb2.GetModelStatusRequest(), grpc.StatusCode.INVALID_ARGUMENT, "Missing ModelSpec"),
    ],
)
def test_what_is_not_there_is_told_as_tensorflow_serving_does(stub, message, code, details):
    with pytest.raises(grpc.RpcError) as error:
        stub.GetModelStatus(message, timeout=30)
    assert (error.value.code(), error.value.details()) == (code, details)

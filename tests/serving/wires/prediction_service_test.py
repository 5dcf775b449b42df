"""TensorFlow Serving's services around Predict: the choice of a version, metadata, and calls without a signature."""

import grpc
import pytest
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from tests.builders import model_spec

NOT_FOUND, INVALID_ARGUMENT = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def call(channel):
    """Calls a method of either service."""
    services = (
        prediction_service_pb2_grpc.PredictionServiceStub(channel), model_service_pb2_grpc.ModelServiceStub(channel)
    )  # fmt: skip
    methods = {name: method for service in services for name, method in vars(service).items()}
    return lambda name, request: methods[name](request, timeout=30)


def metadata_request(chosen, *fields):
    return get_model_metadata_pb2.GetModelMetadataRequest(model_spec=chosen, metadata_field=fields)


REQUESTS = {
    "Predict": lambda chosen: predict_pb2.PredictRequest(model_spec=chosen),
    "GetModelMetadata": lambda chosen: metadata_request(chosen, "signature_def"),
    "GetModelStatus": lambda chosen: get_model_status_pb2.GetModelStatusRequest(model_spec=chosen),
}


@pytest.mark.parametrize(
    ("chosen", "code", "named"),
    [
        (None, INVALID_ARGUMENT, "ModelSpec"),
        (model_spec(name=""), INVALID_ARGUMENT, "no name"),
        (model_spec(name="other"), NOT_FOUND, "'other'"),
        (model_spec(name="other", version=3), NOT_FOUND, "'other'"),
        (model_spec(version=7), NOT_FOUND, "7"),
        (model_spec(label="candidate"), INVALID_ARGUMENT, "label: candidate"),
        (model_spec(name="other", label="stable"), NOT_FOUND, "'other'"),
    ],
)
@pytest.mark.parametrize("method", REQUESTS)
def test_a_model_or_version_that_is_not_there_is_refused(call, method, chosen, code, named):
    with pytest.raises(grpc.RpcError) as error:
        call(method, REQUESTS[method](chosen))
    assert error.value.code() is code
    assert named in error.value.details()


@pytest.mark.parametrize("chosen", [model_spec(), model_spec(version=3), model_spec(label="stable")])
def test_metadata_holds_the_signatures_of_the_chosen_version(call, chosen):
    answer = call("GetModelMetadata", metadata_request(chosen, "signature_def"))
    assert (answer.model_spec.name, answer.model_spec.version.value) == ("triage", 3)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert answer.metadata["signature_def"].Unpack(signatures)
    definitions = signatures.signature_def
    assert {"serving_default", "triage", "state"} <= set(definitions)
    states = definitions["state"].inputs["states"]
    assert (states.dtype, [size.size for size in states.tensor_shape.dim]) == (1, [-1, 3])  # 1 is DT_FLOAT
    assert definitions["state"].method_name == "tensorflow/serving/predict"
    assert set(definitions["triage"].outputs) == {"triage_responses"}


@pytest.mark.parametrize(("fields", "named"), [([], "metadata_field"), (["signature_def", "weights"], "weights")])
def test_other_metadata_is_refused(call, fields, named):
    with pytest.raises(grpc.RpcError) as error:
        call("GetModelMetadata", metadata_request(model_spec(), *fields))
    assert error.value.code() is INVALID_ARGUMENT
    assert named in error.value.details()


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("Classify", classification_pb2.ClassificationRequest(model_spec=model_spec())),
        ("Regress", regression_pb2.RegressionRequest(model_spec=model_spec())),
        ("MultiInference", inference_pb2.MultiInferenceRequest()),
    ],
)
def test_methods_that_take_examples_are_refused_with_what_to_use(call, method, message):
    with pytest.raises(grpc.RpcError) as error:
        call(method, message)
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert method in error.value.details()
    assert "Predict" in error.value.details()

"""PredictionService around Predict: the choice of a version, metadata, and the calls without a signature."""

import grpc
import pytest
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    inference_pb2,
    model_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

NOT_FOUND, INVALID_ARGUMENT = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def stub(channel):
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


def spec(name="triage", version=None, label=None):
    message = model_pb2.ModelSpec(name=name)
    if version is not None:
        message.version.value = version
    if label is not None:
        message.version_label = label
    return message


def metadata_request(model_spec, *fields):
    return get_model_metadata_pb2.GetModelMetadataRequest(model_spec=model_spec, metadata_field=fields)


OTHER = "no model 'other': this server has triage"
REFUSED = [
    (None, INVALID_ARGUMENT, "Missing ModelSpec"),
    (spec(name=""), INVALID_ARGUMENT, "ModelSpec has no name specified."),
    (spec(name="other"), NOT_FOUND, f"Servable not found for request: Latest(other): {OTHER}"),
    (spec(name="other", version=3), NOT_FOUND, f"Servable not found for request: Specific(other, 3): {OTHER}"),
    (spec(version=7), NOT_FOUND, "Servable not found for request: Specific(triage, 7)"),
    (spec(label="candidate"), INVALID_ARGUMENT, "Unrecognized servable version label: candidate"),
    (spec(name="other", label="stable"), NOT_FOUND, f"Servable not found for request: Latest(other): {OTHER}"),
]


@pytest.mark.parametrize(("model_spec", "code", "message"), REFUSED)
@pytest.mark.parametrize("call", ["Predict", "GetModelMetadata"])
def test_an_unknown_model_or_version_has_tensorflow_servings_message(stub, call, model_spec, code, message):
    requests = {
        "Predict": predict_pb2.PredictRequest(model_spec=model_spec),
        "GetModelMetadata": metadata_request(model_spec, "signature_def"),
    }
    with pytest.raises(grpc.RpcError) as error:
        getattr(stub, call)(requests[call], timeout=30)
    assert (error.value.code(), error.value.details()) == (code, message)


@pytest.mark.parametrize("model_spec", [spec(), spec(version=3), spec(label="stable")])
def test_metadata_holds_the_signatures_of_the_chosen_version(stub, model_spec):
    answer = stub.GetModelMetadata(metadata_request(model_spec, "signature_def"), timeout=30)
    assert (answer.model_spec.name, answer.model_spec.version.value) == ("triage", 3)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert answer.metadata["signature_def"].Unpack(signatures)
    definitions = signatures.signature_def
    assert {"serving_default", "triage", "state"} <= set(definitions)
    states = definitions["state"].inputs["states"]
    assert (states.dtype, [size.size for size in states.tensor_shape.dim]) == (1, [-1, 3])  # 1 is DT_FLOAT
    assert definitions["state"].method_name == "tensorflow/serving/predict"
    assert set(definitions["triage"].outputs) == {"triage_responses"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([], "GetModelMetadataRequest must specify at least one metadata_field"),
        (["signature_def", "weights"], "Metadata field weights is not supported"),
    ],
)
def test_other_metadata_is_refused(stub, fields, message):
    with pytest.raises(grpc.RpcError) as error:
        stub.GetModelMetadata(metadata_request(spec(), *fields), timeout=30)
    assert (error.value.code(), error.value.details()) == (INVALID_ARGUMENT, message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("Classify", classification_pb2.ClassificationRequest(model_spec=spec())),
        ("Regress", regression_pb2.RegressionRequest(model_spec=spec())),
        ("MultiInference", inference_pb2.MultiInferenceRequest()),
    ],
)
def test_methods_that_take_examples_are_refused_with_advice(stub, call, message):
    with pytest.raises(grpc.RpcError) as error:
        getattr(stub, call)(message, timeout=30)
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert error.value.details().startswith(f"{call} takes tf.Examples")
    assert "use Predict with the signature serving_default" in error.value.details()

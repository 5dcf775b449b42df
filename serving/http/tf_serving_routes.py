"""TensorFlow Serving's REST API: predict, status and metadata of a model, its versions and labels."""

from typing import Any

from google.protobuf import json_format
from starlette.requests import Request
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2

from schemas import features
from schemas.directories import LARGEST_VERSION
from schemas.errors import InputError
from serving.errors import NotFoundError, PreconditionError
from serving.http.door import Exchange
from serving.http.tensor_json import read_columns, read_rows, write_columns, write_rows
from serving.models.served_models import ServedModels
from serving.tf_serving import ModelService, PredictionService, borrow, outputs_of, to_request

_BODY = ("signature_name", "instances", "inputs")


class TfServingRoutes:
    """Answers from the services that TensorFlow Serving's gRPC clients call.

    Args:
        models: the models.
        prediction: runs signatures.
        status: tells the states of versions.
    """

    def __init__(self, models: ServedModels, prediction: PredictionService, status: ModelService):
        self._models = models
        self._prediction = prediction
        self._status = status

    def predict(self, exchange: Exchange) -> Any:
        """Runs a signature on `instances` (rows) or `inputs` (columns)."""
        spec, body = _spec(exchange.request), exchange.json()
        if not isinstance(body, dict) or not set(body) <= set(_BODY) or ("instances" in body) == ("inputs" in body):
            raise InputError("expected an object with instances or inputs, and perhaps signature_name")
        name = body.get("signature_name") or features.SERVING_DEFAULT
        if not isinstance(name, str):
            raise InputError("signature_name: expected a string")
        with borrow(spec, self._models) as engine:
            signature = engine.signatures.get(name)
            if signature is None or not signature.inputs:
                raise PreconditionError(f'Serving signature key "{name}" not found.')
            spec.version.value = int(engine.info.model_version)  # the same one answers below
            if "inputs" in body:
                inputs = read_columns(body["inputs"], signature)
            else:
                inputs = read_rows(body["instances"], signature)
            request = to_request(name, inputs)
            request.model_spec.MergeFrom(spec)
            response = self._prediction.Predict(request, exchange.context)
        outputs = outputs_of(response)
        if "inputs" in body:
            return {"outputs": write_columns(outputs)}
        return {"predictions": write_rows(outputs)}

    def status(self, exchange: Exchange) -> Any:
        """Returns the state of the versions."""
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=_spec(exchange.request))
        status = self._status.GetModelStatus(request, exchange.context)
        return {
            "model_version_status": [
                {
                    "version": str(entry.version),
                    "state": get_model_status_pb2.ModelVersionStatus.State.Name(entry.state),
                    "status": {
                        "error_code": "INVALID_ARGUMENT" if entry.status.error_code else "OK",
                        "error_message": entry.status.error_message,
                    },
                }
                for entry in status.model_version_status
            ]
        }

    def metadata(self, exchange: Exchange) -> Any:
        """Returns the signatures of a version."""
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=_spec(exchange.request), metadata_field=["signature_def"]
        )
        metadata = self._prediction.GetModelMetadata(request, exchange.context)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        metadata.metadata["signature_def"].Unpack(signatures)
        version = str(metadata.model_spec.version.value)
        return {
            "model_spec": {"name": metadata.model_spec.name, "signature_name": "", "version": version},
            "metadata": {"signature_def": json_format.MessageToDict(signatures, preserving_proto_field_name=True)},
        }


def _spec(request: Request) -> model_pb2.ModelSpec:
    """Returns the model, version or label that a path names.

    Raises:
        NotFoundError: the version is no number that a version can have.
    """
    spec = model_pb2.ModelSpec(name=request.path_params["model"])
    if "label" in request.path_params:
        spec.version_label = request.path_params["label"]
    if "version" in request.path_params:
        number = request.path_params["version"]
        if not (number.isascii() and number.isdecimal() and int(number[:20]) <= LARGEST_VERSION):
            raise NotFoundError(f"Could not find version {number[:40]} of model {spec.name}")
        spec.version.value = int(number)
    return spec

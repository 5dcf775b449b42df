"""TensorFlow Serving's REST API: predict, status and metadata of a model, its versions and labels."""

from typing import Any

from google.protobuf import json_format
from starlette.requests import Request
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2

from schemas import features
from schemas.errors import InputError
from serving.wires.http_endpoints import Exchange
from serving.wires.json_body import read_json
from serving.wires.model_service import ModelService
from serving.wires.prediction_service import PredictionService
from serving.wires.signatures import Signatures, version_number
from serving.wires.tensor_json import read_columns, read_rows, write_columns, write_rows

_BODY = ("signature_name", "instances", "inputs")


class TfServingRoutes:
    """Answers from the signatures of a server's models, and from the services that tell of their versions.

    Args:
        signatures: runs them.
        prediction: describes them.
        status: tells the states of versions.
    """

    def __init__(self, signatures: Signatures, prediction: PredictionService, status: ModelService):
        self._signatures = signatures
        self._prediction = prediction
        self._status = status

    def predict(self, exchange: Exchange) -> Any:
        """Runs a signature on `instances` (rows) or `inputs` (columns)."""
        body, place = read_json(exchange.raw), exchange.request.path_params
        if not isinstance(body, dict) or not set(body) <= set(_BODY) or ("instances" in body) == ("inputs" in body):
            raise InputError("expected an object with instances or inputs, and perhaps signature_name")
        name = body.get("signature_name") or features.SERVING_DEFAULT
        if not isinstance(name, str):
            raise InputError("signature_name: expected a string")
        version = version_number(place["model"], place["version"]) if "version" in place else None
        with self._signatures.borrow(place["model"], version, place.get("label")) as engine:
            declared = self._signatures.declared(engine, name)
            if "inputs" in body:
                inputs = read_columns(body["inputs"], declared)
            else:
                inputs = read_rows(body["instances"], declared)
            outputs = self._signatures.predict(engine, name, inputs)
        if "inputs" in body:
            return {"outputs": write_columns(outputs)}
        return {"predictions": write_rows(outputs)}

    def status(self, exchange: Exchange) -> Any:
        """Returns the state of the versions."""
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=_spec(exchange.request))
        status = self._status.GetModelStatus(request, None)
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
        metadata = self._prediction.GetModelMetadata(request, None)
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
        spec.version.value = version_number(spec.name, request.path_params["version"])
    return spec

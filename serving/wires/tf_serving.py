"""TensorFlow Serving's two APIs: its services over gRPC, and predict, status and metadata of a model over HTTP."""

import re
from typing import Any

from google.protobuf import json_format
from starlette.requests import Request
from starlette.routing import Route
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from schemas import features
from schemas.directories import LARGEST_VERSION
from schemas.errors import InputError
from serving.admission import GrpcHandler
from serving.config.settings import ServeConfig
from serving.engine.served_models import ServedModels
from serving.errors import NotFoundError
from serving.telemetry import Telemetry
from serving.wires import model_service, prediction_service
from serving.wires.http_endpoints import Endpoints, Exchange
from serving.wires.json_body import read_json
from serving.wires.model_service import ModelService
from serving.wires.openapi import ANY_OBJECT, TEXT, Api, Operation, content_of, list_of, object_of
from serving.wires.prediction_service import PredictionService
from serving.wires.signatures import Signatures
from serving.wires.tensor_json import read_columns, read_rows, write_columns, write_rows
from serving.wires.triage_routes import cost_of

_BODY: dict[str, Any] = {"signature_name": TEXT, "instances": list_of({}), "inputs": {}}
_SCHEMAS = {
    "TensorInputs": {
        **object_of(_BODY, tuple(_BODY)),
        "oneOf": [{"required": ["instances"]}, {"required": ["inputs"]}],
        "description": "the inputs of a signature, as rows or as columns",
    },
    "TensorOutputs": {"oneOf": [object_of({"predictions": list_of({})}), object_of({"outputs": {}})]},
    "ModelStatus": object_of({"model_version_status": list_of(ANY_OBJECT)}),
    "ModelSignatures": object_of({"model_spec": ANY_OBJECT, "metadata": ANY_OBJECT}),
}
_OPERATIONS = {
    "tf-predict": Operation(
        "Run a signature, as TensorFlow Serving", content_of("TensorOutputs"), content_of("TensorInputs")
    ),
    "tf-status": Operation("Tell the states of versions, as TensorFlow Serving", content_of("ModelStatus")),
    "tf-metadata": Operation("Describe signatures, as TensorFlow Serving", content_of("ModelSignatures")),
}


class TfServing:
    """Answers from the signatures of a server's models, and from the states of their versions."""

    def __init__(self, models: ServedModels, config: ServeConfig, telemetry: Telemetry):
        self._signatures = Signatures(models, config, telemetry)
        self._prediction = PredictionService(self._signatures)
        self._status = ModelService(models)

    def add_services(self, handler: GrpcHandler) -> tuple[str, str]:
        """Offers the services over gRPC, and returns their names."""
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(self._prediction, handler)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(self._status, handler)
        return prediction_service.SERVICE, model_service.SERVICE

    def paths(self, endpoints: Endpoints) -> Api:
        """Returns the paths of a model, and of its versions and labels."""
        predict = endpoints.route("v1/models:predict", self.predict, cost_of)
        metadata, status = (
            endpoints.route("v1/models/metadata", self.metadata),
            endpoints.route("v1/models", self.status),
        )
        routes = []
        for version in ("", "/versions/{version}", "/labels/{label}"):
            path = f"/v1/models/{{model}}{version}"
            routes += [
                Route(f"{path}:predict", predict, methods=["POST"], name="tf-predict"),
                Route(f"{path}/metadata", metadata, name="tf-metadata"),
                Route(path, status, name="tf-status"),
            ]
        return Api(routes, _OPERATIONS, _SCHEMAS)

    def predict(self, exchange: Exchange) -> Any:
        """Runs a signature on `instances` (rows) or `inputs` (columns)."""
        body = read_json(exchange.raw)
        if not isinstance(body, dict) or not body.keys() <= _BODY.keys() or ("instances" in body) == ("inputs" in body):
            raise InputError("expected an object with instances or inputs, and perhaps signature_name")
        name = body.get("signature_name") or features.SERVING_DEFAULT
        if not isinstance(name, str):
            raise InputError("signature_name: expected a string")
        with self._signatures.borrow(_spec(exchange.request)) as engine:
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
        return json_format.MessageToDict(
            self._status.GetModelStatus(request, None),
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )

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
    if version := request.path_params.get("version"):
        if not re.fullmatch("[0-9]{1,19}", version) or int(version) > LARGEST_VERSION:
            raise NotFoundError(f"Could not find version {version[:40]} of model {spec.name}")
        spec.version.value = int(version)
    return spec

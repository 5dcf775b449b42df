"""`tensorflow.serving.PredictionService`, for clients written for TensorFlow Serving."""

import contextlib
from typing import Any

import grpc
from google.protobuf import any_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    model_pb2,
    predict_pb2,
    prediction_service_pb2,
    prediction_service_pb2_grpc,
)

from schemas.errors import InputError
from serving.calls import costs
from serving.config import ServeConfig
from serving.errors import NotFoundError, UnsupportedError
from serving.models.engine import Engine
from serving.models.served_models import ServedModels
from serving.models.state_tensors import to_decisions
from serving.telemetry import Telemetry
from serving.tf_serving.predict import cost_of, predict

SERVICE = prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name
_SIGNATURE_DEF = "signature_def"


# The method names are those of the .proto file, not snake case (N802).
class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers Predict and GetModelMetadata; no signature takes the tf.Examples of the other methods."""

    def __init__(self, models: ServedModels, config: ServeConfig, telemetry: Telemetry | None = None):
        self._models = models
        self._config = config
        self._telemetry = telemetry or Telemetry()

    @costs(cost_of)
    def Predict(  # noqa: N802
        self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext
    ) -> predict_pb2.PredictResponse:
        """Runs one signature on the tensors of the request."""
        with self._borrow(request) as engine:
            response, outputs = predict(engine, request, self._config)
            info = engine.info
        self._telemetry.record_predict(
            request, response, to_decisions(outputs, info) if self._telemetry.metrics else ()
        )
        return response

    def GetModelMetadata(  # noqa: N802
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, context: grpc.ServicerContext
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Returns the signatures of a version."""
        if not request.HasField("model_spec"):
            raise InputError("Missing ModelSpec")
        if not request.metadata_field:
            raise InputError("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != _SIGNATURE_DEF:
                raise InputError(f"Metadata field {field} is not supported")
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        with self._borrow(request) as engine:
            response.model_spec.name = request.model_spec.name
            response.model_spec.version.value = int(engine.info.model_version)
            signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=engine.signatures)
        packed = any_pb2.Any()
        packed.Pack(signatures)
        response.metadata[_SIGNATURE_DEF].CopyFrom(packed)
        return response

    def Classify(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Raises UnsupportedError: it takes tf.Examples, for which the model has no signature."""
        raise _without_signature("Classify")

    def Regress(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Raises UnsupportedError: it takes tf.Examples, for which the model has no signature."""
        raise _without_signature("Regress")

    def MultiInference(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Raises UnsupportedError: it takes tf.Examples, for which the model has no signature."""
        raise _without_signature("MultiInference")

    def _borrow(self, request: Any) -> contextlib.AbstractContextManager[Engine]:
        """Lends the engine of the version that the request's ModelSpec asks for.

        Raises:
            InputError: the ModelSpec or its name is missing, or its label is unknown.
            NotFoundError: this server does not serve the model or version.
        """
        if not request.HasField("model_spec"):
            raise InputError("Missing ModelSpec")
        return borrow(request.model_spec, self._models)


def borrow(spec: model_pb2.ModelSpec, models: ServedModels) -> contextlib.AbstractContextManager[Engine]:
    """Lends the engine of the version that `spec` names by number or label, of the default version if by neither.

    Raises:
        InputError: the model name is missing, or the label is unknown.
        NotFoundError: there is no such model, which the message lists, or version.
    """
    if not spec.name:
        raise InputError("ModelSpec has no name specified.")
    choice, number = spec.WhichOneof("version_choice"), spec.version.value
    try:
        versions = models.named(spec.name).versions
    except NotFoundError as error:
        wanted = f"Specific({spec.name[:80]}, {number})" if choice == "version" else f"Latest({spec.name[:80]})"
        raise NotFoundError(f"Servable not found for request: {wanted}: {error}") from None
    if choice == "version_label":
        return versions.borrow(versions.version_of(spec.version_label))
    return versions.borrow(number if choice == "version" else None)


def _without_signature(call: str) -> UnsupportedError:
    return UnsupportedError(
        f"{call} takes tf.Examples, for which this model has no signature: use Predict with the signature "
        "serving_default, or triage.v1.TriageService"
    )

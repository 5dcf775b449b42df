"""`tensorflow.serving.PredictionService`, for clients written for TensorFlow Serving."""

import contextlib
from typing import Any

from google.protobuf import any_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    model_pb2,
    predict_pb2,
    prediction_service_pb2,
    prediction_service_pb2_grpc,
)

from schemas import features
from schemas.errors import InputError
from serving.admission import costs
from serving.engine.engine import Engine
from serving.errors import UnsupportedError
from serving.protocols.predict import cost_of, declared, read
from serving.protocols.signatures import Signatures
from serving.tensor_messages import to_message

SERVICE = prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name
_SIGNATURE_DEF = "signature_def"


# The method names are those of the .proto file, not snake case (N802).
class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers Predict and GetModelMetadata; no signature takes the tf.Examples of the other methods."""

    def __init__(self, signatures: Signatures):
        self._signatures = signatures

    @costs(cost_of)
    def Predict(  # noqa: N802
        self, request: predict_pb2.PredictRequest, context: Any
    ) -> predict_pb2.PredictResponse:
        """Runs one signature on the tensors of the request."""
        response = predict_pb2.PredictResponse()
        name = request.model_spec.signature_name or features.SERVING_DEFAULT
        with self._borrow(request) as engine:
            self._signatures.check(declared(request), self._signatures.declared(engine, name))
            inputs = {alias: read(alias, tensor) for alias, tensor in request.inputs.items()}
            outputs = self._signatures.predict(engine, name, inputs, request.output_filter)
            response.model_spec.version.value = int(engine.info.model_version)
        response.model_spec.name, response.model_spec.signature_name = request.model_spec.name, name
        for alias, values in outputs.items():
            response.outputs[alias].CopyFrom(to_message(values))
        return response

    def GetModelMetadata(  # noqa: N802
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, context: Any
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

    def Classify(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Raises UnsupportedError: it takes tf.Examples, for which the model has no signature."""
        raise _without_signature("Classify")

    def Regress(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Raises UnsupportedError: it takes tf.Examples, for which the model has no signature."""
        raise _without_signature("Regress")

    def MultiInference(self, request: Any, context: Any) -> Any:  # noqa: N802
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
        spec: model_pb2.ModelSpec = request.model_spec
        choice = spec.WhichOneof("version_choice")
        return self._signatures.borrow(
            spec.name,
            spec.version.value if choice == "version" else None,
            spec.version_label if choice == "version_label" else None,
        )


def _without_signature(call: str) -> UnsupportedError:
    return UnsupportedError(
        f"{call} takes tf.Examples, for which this model has no signature: use Predict with the signature "
        "serving_default, or triage.v1.TriageService"
    )

"""`tensorflow.serving.PredictionService`, for clients written for TensorFlow Serving."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    predict_pb2,
    prediction_service_pb2,
    prediction_service_pb2_grpc,
)

from schemas import features
from schemas.errors import InputError
from serving.admission import Cost, costs
from serving.errors import UnsupportedError
from serving.tensor_messages import VALUE_FIELDS, to_message
from serving.wires.signatures import Signatures, TensorSpec, spec_of

SERVICE = prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name
_SIGNATURE_DEF = "signature_def"
_MANY = 2**40
_MOST_DIMENSIONS = 8


def _cost_of(request: predict_pb2.PredictRequest) -> Cost:
    """Returns what the tensors of a request hold, as they are declared: a few bytes can declare a large one."""
    tensors = _specs_of(request).values()
    states = max((tensor.shape[0] for tensor in tensors if tensor.shape), default=0)
    size = request.ByteSize() + sum(tensor.size for tensor in tensors)
    return Cost(min(max(states, 0), _MANY), min(size, _MANY))


def _specs_of(request: predict_pb2.PredictRequest) -> dict[str, TensorSpec]:
    """Returns the inputs as they are declared; of more dimensions than any input has, no more than show that."""
    return {
        alias: TensorSpec(
            tensor.dtype,
            None
            if tensor.tensor_shape.unknown_rank
            else [dimension.size for dimension in tensor.tensor_shape.dim[:_MOST_DIMENSIONS]],
        )
        for alias, tensor in request.inputs.items()
    }


def _read(alias: str, tensor: tensor_pb2.TensorProto) -> np.ndarray:
    """Returns the array of an input whose declared size has been checked.

    Raises:
        InputError: its values do not fill its shape.
    """
    field = VALUE_FIELDS.get(tf.as_dtype(tensor.dtype))
    size = math.prod(dimension.size for dimension in tensor.tensor_shape.dim)
    if field is not None and len(getattr(tensor, field)) > size:
        raise InputError(f"tensor parsing error: {alias}")  # before the values are listed
    try:
        return tf.make_ndarray(tensor)
    except (ValueError, TypeError) as error:
        raise InputError(f"tensor parsing error: {alias}") from error


def _unsupported(method: str) -> Callable[..., Any]:
    """Returns a method that refuses its calls, which bring tf.Examples."""

    def refuse(self: Any, request: Any, context: Any) -> Any:
        raise UnsupportedError(
            f"{method} takes tf.Examples, for which this model has no signature: use Predict with the signature "
            "serving_default, or triage.v1.TriageService"
        )

    return refuse


# The method names are those of the .proto file, not snake case (N802).
class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers Predict and GetModelMetadata; no signature takes the tf.Examples of the other methods."""

    Classify, Regress, MultiInference = map(_unsupported, ("Classify", "Regress", "MultiInference"))

    def __init__(self, signatures: Signatures):
        self._signatures = signatures

    @costs(_cost_of)
    def Predict(  # noqa: N802
        self, request: predict_pb2.PredictRequest, context: Any
    ) -> predict_pb2.PredictResponse:
        """Runs one signature on the tensors of the request."""
        response = predict_pb2.PredictResponse()
        name = request.model_spec.signature_name or features.SERVING_DEFAULT
        with self._signatures.borrow(spec_of(request)) as engine:
            self._signatures.check(_specs_of(request), self._signatures.declared(engine, name))
            inputs = {alias: _read(alias, tensor) for alias, tensor in request.inputs.items()}
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
        spec = spec_of(request)
        if not request.metadata_field:
            raise InputError("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != _SIGNATURE_DEF:
                raise InputError(f"Metadata field {field} is not supported")
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = spec.name
        with self._signatures.borrow(spec) as engine:
            response.model_spec.version.value = int(engine.info.model_version)
            signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=engine.signatures)
        response.metadata[_SIGNATURE_DEF].Pack(signatures)
        return response

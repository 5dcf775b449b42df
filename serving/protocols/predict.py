"""TensorFlow Serving's messages of Predict as arrays, and back."""

import math

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import predict_pb2

from schemas.errors import InputError
from serving.admission import Cost
from serving.protocols.signatures import Declared
from serving.tensor_messages import VALUE_FIELDS

_MANY = 2**40
_MOST_DIMENSIONS = 8


def cost_of(request: predict_pb2.PredictRequest) -> Cost:
    """Returns what the tensors of a request hold, as they are declared: a few bytes can declare a large one."""
    tensors = declared(request).values()
    states = max((tensor.shape[0] for tensor in tensors if tensor.shape), default=0)
    size = request.ByteSize() + sum(tensor.size for tensor in tensors)
    return Cost(min(max(states, 0), _MANY), min(size, _MANY))


def declared(request: predict_pb2.PredictRequest) -> dict[str, Declared]:
    """Returns the inputs as they are declared; of more dimensions than any input has, no more than show that."""
    return {
        alias: Declared(
            tensor.dtype,
            None
            if tensor.tensor_shape.unknown_rank
            else [dimension.size for dimension in tensor.tensor_shape.dim[:_MOST_DIMENSIONS]],
        )
        for alias, tensor in request.inputs.items()
    }


def read(alias: str, tensor: tensor_pb2.TensorProto) -> np.ndarray:
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

"""Tensors as the Open Inference Protocol writes them, as NumPy arrays and back.

Raw bytes are little-endian and in row-major order. A value of type BYTES has its length before it, in four bytes.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from schemas.errors import InputError
from triage.open_inference import inference_pb2

_LENGTH = struct.Struct("<I")
_BYTES = "BYTES"
_MOST_DIMENSIONS = 8


class _Type(NamedTuple):
    name: str
    field: str  # of InferTensorContents
    dtype: Any


# The types that signatures have.
_TYPES: Mapping[int, _Type] = {
    tf.float32.as_datatype_enum: _Type("FP32", "fp32_contents", np.dtype("<f4")),
    tf.int32.as_datatype_enum: _Type("INT32", "int_contents", np.dtype("<i4")),
    tf.bool.as_datatype_enum: _Type("BOOL", "bool_contents", np.dtype("?")),
    tf.string.as_datatype_enum: _Type(_BYTES, "bytes_contents", np.dtype(object)),
}


class Given(NamedTuple):
    """An input as a request has it.

    Attributes:
        name: of the input.
        datatype: such as FP32.
        shape: its size in each dimension.
        values: raw bytes, a list of values in row-major order, or such an array.
    """

    name: str
    datatype: str
    shape: Sequence[int]
    values: Any


def datatype_of(dtype: int) -> str:
    """Returns the protocol's name for a DataType of TensorFlow."""
    return _TYPES[dtype].name


def dtype_of(datatype: str) -> tf.DType | None:
    """Returns TensorFlow's type for a name of the protocol, None for one that no signature has."""
    return next((tf.as_dtype(number) for number, each in _TYPES.items() if each.name == datatype), None)


def datatype_of_array(values: np.ndarray) -> str:
    """Returns the protocol's name for the type of an array, of objects if it holds bytes."""
    return datatype_of(tf.as_dtype(values.dtype).as_datatype_enum)


def read_inputs(given: Sequence[Given], signature: meta_graph_pb2.SignatureDef) -> dict[str, np.ndarray]:
    """Returns the inputs by name. Whether they are all that the signature needs is for others to check.

    Raises:
        InputError: an input is unknown, given twice, of another type, or its values do not fill its shape.
    """
    inputs: dict[str, np.ndarray] = {}
    for each in given:
        if each.name not in signature.inputs:
            raise InputError(f"no input {each.name[:80]!r}: expected {', '.join(sorted(signature.inputs))}")
        if each.name in inputs:
            raise InputError(f"{each.name}: given twice")
        expected = _TYPES[signature.inputs[each.name].dtype]
        if each.datatype != expected.name:
            raise InputError(f"{each.name}: expected the datatype {expected.name}, got {each.datatype[:20]!r}")
        inputs[each.name] = _read(each, expected)
    return inputs


def _read(given: Given, expected: _Type) -> np.ndarray:
    if len(given.shape) > _MOST_DIMENSIONS or any(size < 0 for size in given.shape):
        shape = list(given.shape[:_MOST_DIMENSIONS])
        raise InputError(f"{given.name}: shape {shape}: expected numbers from 0, at most {_MOST_DIMENSIONS}")
    try:
        if isinstance(given.values, bytes):
            values = _from_raw(given.values, expected)
        elif isinstance(given.values, np.ndarray):
            values = given.values
        else:
            values = np.empty(len(given.values), expected.dtype)
            values[:] = given.values
        if values.size != math.prod(given.shape):
            raise ValueError
        return values.reshape(tuple(given.shape))
    except (ValueError, OverflowError):
        raise InputError(
            f"{given.name}: expected as many values of type {expected.name} as fill the shape {list(given.shape)[:8]}"
        ) from None


def _from_raw(data: bytes, expected: _Type) -> np.ndarray:
    """Returns the values of raw bytes, of one dimension; raises ValueError if the bytes end within a value."""
    if expected.name != _BYTES:
        return np.frombuffer(data, expected.dtype)
    pieces, place = [], 0
    while place < len(data):
        if len(data) - place < _LENGTH.size:
            raise ValueError
        begin = place + _LENGTH.size
        place = begin + _LENGTH.unpack_from(data, place)[0]
        if place > len(data):
            raise ValueError
        pieces.append(data[begin:place])
    values: np.ndarray = np.empty(len(pieces), object)
    values[:] = pieces
    return values


def to_raw(values: np.ndarray) -> bytes:
    """Returns the raw bytes of an array."""
    if values.dtype != object:
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
    return b"".join(_LENGTH.pack(len(piece)) + piece for piece in values.ravel().tolist())


def contents(values: np.ndarray) -> inference_pb2.InferTensorContents:
    """Returns the values of an array in the message's field of their type."""
    field = _TYPES[tf.as_dtype(values.dtype).as_datatype_enum].field
    return inference_pb2.InferTensorContents(**{field: values.ravel().tolist()})


def from_contents(message: inference_pb2.InferTensorContents, datatype: str) -> Sequence[Any]:
    """Returns the values in the message's field of a type; none for a type that no signature has."""
    field = next((each.field for each in _TYPES.values() if each.name == datatype), "bytes_contents")
    values: Sequence[Any] = getattr(message, field)
    return values

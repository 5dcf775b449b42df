"""Tensors in JSON, as TensorFlow Serving's REST API writes them: by rows (`instances`) or by columns (`inputs`)."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from schemas import features
from schemas.errors import InputError

_BASE64 = "b64"


def read_columns(body: Any, signature: meta_graph_pb2.SignatureDef) -> dict[str, np.ndarray]:
    """Returns the inputs in `inputs`: an object of tensors, or the only tensor.

    Raises:
        InputError: an input is missing, unknown, or of another type or shape.
    """
    if not isinstance(body, dict) or set(body) == {_BASE64}:
        body = {_only_input(signature): body}
    _check_names(body, signature)
    return {alias: _to_array(alias, body[alias], info) for alias, info in signature.inputs.items()}


def read_rows(body: Any, signature: meta_graph_pb2.SignatureDef) -> dict[str, np.ndarray]:
    """Returns the inputs in `instances`: a list of objects with a value for each input, or of values of the only one.

    Raises:
        InputError: as `read_columns`.
    """
    if not isinstance(body, list):
        raise InputError("instances: expected a list")
    columns: dict[str, list[Any]] = {alias: [] for alias in signature.inputs}
    for row in body:
        if not isinstance(row, dict) or set(row) == {_BASE64}:
            row = {_only_input(signature): row}
        _check_names(row, signature)
        for alias, values in columns.items():
            values.append(row[alias])
    return {alias: _to_array(alias, columns[alias], info) for alias, info in signature.inputs.items()}


def write_columns(outputs: Mapping[str, np.ndarray]) -> Any:
    """Returns outputs as an object of tensors, or the only tensor."""
    columns = {alias: _values(alias, value) for alias, value in outputs.items()}
    return next(iter(columns.values())) if len(columns) == 1 else columns


def write_rows(outputs: Mapping[str, np.ndarray]) -> list[Any]:
    """Returns outputs as a list of objects with a value for each output, or of values of the only one."""
    columns = {alias: _values(alias, value) for alias, value in outputs.items()}
    if len(columns) == 1:
        return list(next(iter(columns.values())))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _only_input(signature: meta_graph_pb2.SignatureDef) -> str:
    if len(signature.inputs) != 1:
        raise InputError(f"expected an object with the inputs {', '.join(sorted(signature.inputs))}")
    return next(iter(signature.inputs))


def _check_names(given: Mapping[str, Any], signature: meta_graph_pb2.SignatureDef) -> None:
    if set(given) != set(signature.inputs):
        named = ", ".join(sorted(map(str, given)))[:200]
        raise InputError(f"expected the inputs {', '.join(sorted(signature.inputs))}, got {named or 'none'}")


def _to_array(alias: str, value: Any, info: meta_graph_pb2.TensorInfo) -> np.ndarray:
    """Returns an input of nested lists as an array.

    Raises:
        InputError: the lists have different lengths, or hold something else.
    """
    dtype = tf.as_dtype(info.dtype)
    kind = np.dtype(dtype.as_numpy_dtype)
    try:
        if kind.kind == "O":
            return _strings(value, len(info.tensor_shape.dim))
        numbers = np.array(value)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"{alias}: expected lists of the same length, all of them {_name(dtype)}") from error
    if numbers.size and numbers.dtype.kind not in {"f": "if", "b": "b"}.get(kind.kind, "i"):
        raise InputError(f"{alias}: expected {_name(dtype)}")
    if kind.kind == "i" and numbers.size:
        limits = np.iinfo(kind)
        if numbers.min() < limits.min or numbers.max() > limits.max:
            raise InputError(f"{alias}: expected {_name(dtype)} from {limits.min} to {limits.max}")
    with np.errstate(over="ignore"):
        return numbers.astype(kind)


def _strings(value: Any, rank: int) -> np.ndarray:
    """Returns strings, or objects with base64, as bytes of `rank` dimensions."""
    content = np.array(value, object)
    if not content.size:
        content = content.reshape([*content.shape, *[0] * (rank - content.ndim)])
    if content.ndim != rank:
        raise ValueError
    strings: np.ndarray = np.vectorize(_bytes, otypes=[object])(content)
    return strings


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {_BASE64} and isinstance(value[_BASE64], str):
        try:
            return base64.b64decode(value[_BASE64], validate=True)
        except binascii.Error:
            raise ValueError from None
    raise ValueError


def _values(alias: str, value: np.ndarray) -> Any:
    if value.dtype != object:
        return value.tolist()

    def text(piece: bytes) -> Any:
        if alias == features.TRIAGE_RESPONSES:  # serialized messages
            return {_BASE64: base64.b64encode(piece).decode()}
        return piece.decode(errors="replace")

    return np.vectorize(text, otypes=[object])(value).tolist()


def _name(dtype: tf.DType) -> str:
    kind: str = dtype.name
    special = {"string": "strings, or objects with base64 under b64", "bool": "true or false"}
    return special.get(kind, f"numbers of type {kind}")

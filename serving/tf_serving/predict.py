"""Answers Predict as TensorFlow Serving does: checks the tensors of a request, runs a signature, makes a response.

Error messages are TensorFlow Serving's where it has them. Inputs of a wrong type or shape, on which the graph would
fail, are refused by name before it runs.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf
from google.protobuf import message
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import predict_pb2

from schemas import features
from schemas.errors import InputError
from serving.call import MODEL, current
from serving.calls import Cost, check_nesting
from serving.config import ServeConfig
from serving.errors import PreconditionError
from serving.models.engine import Engine
from triage.v1 import triage_pb2

# TensorFlow Serving sets these fields and not `tensor_content`, and clients without TensorFlow read them.
_VALUE_FIELDS = {tf.float32: "float_val", tf.int32: "int_val", tf.bool: "bool_val", tf.string: "string_val"}
_INITIALIZER = "__saved_model_init_op"
_STRING = tf.string.as_datatype_enum
_MANY = 2**40
_MOST_DIMENSIONS = 8


def predict(
    engine: Engine, request: predict_pb2.PredictRequest, config: ServeConfig
) -> tuple[predict_pb2.PredictResponse, Mapping[str, np.ndarray]]:
    """Runs the signature that `request` names; returns the response, with the filtered outputs, and all outputs.

    Raises:
        PreconditionError: there is no such signature.
        InputError: an input is missing, unknown, too large, or of another type or shape, or an output is unknown.
        tf.errors.OpError: the graph failed.
    """
    name = request.model_spec.signature_name or features.SERVING_DEFAULT
    if name not in engine.signatures or name == _INITIALIZER:
        raise PreconditionError(f'Serving signature key "{name}" not found.')
    signature = engine.signatures[name]
    _check_names(request.inputs, signature.inputs)
    if (size := declared_bytes(request)) > config.max_message_bytes:
        raise InputError(
            f"tensors of {size} bytes, 8 for a string: the server takes at most {config.max_message_bytes}"
        )
    inputs = {alias: _read(alias, request.inputs[alias], info, config) for alias, info in signature.inputs.items()}
    _check_values(inputs)
    if features.EVIDENCE_STATES in inputs:
        _check_messages(inputs[features.EVIDENCE_STATES], max(config.max_evidence, len(engine.vocabulary)))
    wanted = _choose_outputs(request.output_filter, signature.outputs)
    try:
        with current().timed(MODEL):
            outputs = engine.predict(name, inputs)
    except tf.errors.InvalidArgumentError as error:
        raise InputError(error.message) from error
    response = predict_pb2.PredictResponse()
    response.model_spec.name = request.model_spec.name
    response.model_spec.signature_name = name
    response.model_spec.version.value = int(engine.info.model_version)
    for alias in wanted:
        response.outputs[alias].CopyFrom(_write(outputs[alias]))
    return response, outputs


def to_request(signature_name: str, inputs: Mapping[str, np.ndarray]) -> predict_pb2.PredictRequest:
    """Returns a request of TensorFlow Serving's gRPC service."""
    request = predict_pb2.PredictRequest()
    request.model_spec.signature_name = signature_name
    for alias, value in inputs.items():
        request.inputs[alias].CopyFrom(tf.make_tensor_proto(value))
    return request


def outputs_of(response: predict_pb2.PredictResponse) -> dict[str, np.ndarray]:
    """Returns the tensors of a response."""
    return {alias: tf.make_ndarray(tensor) for alias, tensor in sorted(response.outputs.items())}


def cost_of(request: predict_pb2.PredictRequest) -> Cost:
    """Returns what the tensors of a request hold, as they are declared: a few bytes can declare a large one."""
    shapes = map(_declared_shape, request.inputs.values())
    states = max((shape[0] for shape in shapes if shape), default=0)
    return Cost(min(max(states, 0), _MANY), min(request.ByteSize() + declared_bytes(request), _MANY))


def declared_bytes(request: predict_pb2.PredictRequest) -> int:
    """Returns the size of the inputs as declared, with 8 bytes for a string."""
    return sum(
        math.prod(max(size, 0) for size in _declared_shape(tensor)) * (8 if tensor.dtype == _STRING else 4)
        for tensor in request.inputs.values()
    )


def _declared_shape(tensor: tensor_pb2.TensorProto) -> list[int]:
    """Returns the declared size in each dimension; of more dimensions than any input has, no more than show that."""
    return [dimension.size for dimension in tensor.tensor_shape.dim[:_MOST_DIMENSIONS]]


def _check_names(sent: Mapping[str, object], known: Mapping[str, object]) -> None:
    if set(sent) != set(known):
        sets = [",".join(sorted(names)) for names in (sent, known, set(sent) - set(known), set(known) - set(sent))]
        raise InputError(
            f"input size does not match signature: {len(sent)}!={len(known)} len({{{sets[0]}}}) != len({{{sets[1]}}}). "
            f"Sent extra: {{{sets[2]}}}. Missing but required: {{{sets[3]}}}."
        )


def _read(
    alias: str, tensor: tensor_pb2.TensorProto, info: meta_graph_pb2.TensorInfo, config: ServeConfig
) -> np.ndarray:
    """Returns one input, after checking its size: a few bytes can declare a tensor that exceeds all memory."""
    if tensor.dtype != info.dtype:
        raise InputError(f"Expects {alias} to be {_type_name(info.dtype)} but {_type_name(tensor.dtype)} is provided")
    shape = _declared_shape(tensor)
    limits = [dimension.size for dimension in info.tensor_shape.dim]
    fits = len(shape) == len(limits) and all(
        size >= 0 and limit in (-1, size) for size, limit in zip(shape, limits, strict=True)
    )
    if tensor.tensor_shape.unknown_rank or not fits:
        wanted = ",".join("?" if limit == -1 else str(limit) for limit in limits)
        raise InputError(f"Expects {alias} to have shape [{wanted}] but [{','.join(map(str, shape))}] is provided")
    if shape and shape[0] > config.max_batch:
        raise InputError(f"{alias}: a batch of {shape[0]}: the server takes at most {config.max_batch}")
    field = _VALUE_FIELDS.get(tf.as_dtype(tensor.dtype))
    if field is not None and len(getattr(tensor, field)) > math.prod(shape):
        raise InputError(f"tensor parsing error: {alias}")  # before the values are listed
    try:
        return tf.make_ndarray(tensor)
    except (ValueError, TypeError) as error:
        raise InputError(f"tensor parsing error: {alias}") from error


def _check_values(inputs: Mapping[str, np.ndarray]) -> None:
    """Refuses batches of different sizes, which the graph may broadcast, and numbers that are not finite."""
    sizes = {alias: len(value) for alias, value in sorted(inputs.items()) if value.ndim}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{alias} {size}" for alias, size in sizes.items())
        raise InputError(f"Expects inputs of the same batch size but got {listed}")
    for alias, value in inputs.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise InputError(f"Expects {alias} to be finite but NaN or infinity is provided")


def _check_messages(states: np.ndarray, max_evidence: int) -> None:
    """Refuses messages with more evidence than the typed service accepts, as the graph pads all to the longest.

    A malformed message is left to the graph, which fails as in TensorFlow Serving.
    """
    for number, serialized in enumerate(states):
        try:
            check_nesting(triage_pb2.EvidenceState, serialized or b"")
            count = len(triage_pb2.EvidenceState.FromString(serialized or b"").evidence)
        except message.DecodeError:
            return
        if count > max_evidence:
            raise InputError(
                f"{features.EVIDENCE_STATES}[{number}]: {count} pieces of evidence: the server takes at most "
                f"{max_evidence} in one state"
            )


def _choose_outputs(wanted: Iterable[str], known: Mapping[str, object]) -> list[str]:
    """Returns the outputs that the request names, by default all."""
    chosen: list[str] = []
    for alias in wanted:
        if alias not in known:
            raise InputError(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in the set "
                f"{{{','.join(sorted(known))}}}."
            )
        if alias in chosen:
            raise InputError(f"duplicate output tensor alias: {alias}")
        chosen.append(alias)
    return chosen or sorted(known)


def _write(values: np.ndarray) -> tensor_pb2.TensorProto:
    field = _VALUE_FIELDS.get(tf.as_dtype(values.dtype))
    if field is None:
        return tf.make_tensor_proto(values)
    tensor = tensor_pb2.TensorProto(dtype=tf.as_dtype(values.dtype).as_datatype_enum)
    for size in values.shape:
        tensor.tensor_shape.dim.add(size=size)
    getattr(tensor, field).extend(values.ravel().tolist())
    return tensor


def _type_name(number: int) -> str:
    """Returns the name of a type in TensorFlow's own messages."""
    try:
        name = tf.as_dtype(number).name
    except TypeError:
        return f"DataType {number}"
    return {"float32": "float", "float64": "double"}.get(name, name)

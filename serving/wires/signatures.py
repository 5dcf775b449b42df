"""Runs the signatures of the served models on arrays: every protocol that carries tensors ends in `predict`.

Error messages are TensorFlow Serving's where it has them. Inputs of a wrong type or shape, on which the graph would
fail, are refused by name before it runs.
"""

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf import message
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import model_pb2

from schemas import features
from schemas.errors import InputError
from serving.admission import check_nesting
from serving.call import MODEL, current
from serving.config.settings import ServeConfig
from serving.engine.engine import Engine
from serving.engine.served_models import ServedModels
from serving.engine.state_tensors import to_decisions
from serving.errors import NotFoundError, PreconditionError
from serving.telemetry import Telemetry
from triage.v1 import triage_pb2

_INITIALIZER = "__saved_model_init_op"
_STRING = tf.string.as_datatype_enum


class TensorSpec(NamedTuple):
    """A tensor as it is declared, before there is an array of it.

    Attributes:
        dtype: number of TensorFlow's DataType.
        shape: the size in each dimension, None if it does not say.
    """

    dtype: int
    shape: Sequence[int] | None

    @property
    def size(self) -> int:
        """The bytes that it would take, 8 for a string."""
        return math.prod(max(size, 0) for size in self.shape or ()) * (8 if self.dtype == _STRING else 4)


class Signatures:
    """The signatures of a server's models."""

    def __init__(self, models: ServedModels, config: ServeConfig, telemetry: Telemetry):
        self._models, self._config, self._telemetry = models, config, telemetry

    def borrow(self, spec: model_pb2.ModelSpec) -> contextlib.AbstractContextManager[Engine]:
        """Lends the engine of the version that a ModelSpec names by number or label, of the default one for neither.

        Raises:
            InputError: the label is unknown.
            NotFoundError: there is no such model, which the message lists, or version.
        """
        choice = spec.WhichOneof("version_choice")
        version = spec.version.value if choice == "version" else None
        try:
            versions = self._models.named(spec.name).versions
        except NotFoundError as error:
            name = spec.name[:80]
            wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise NotFoundError(f"Servable not found for request: {wanted}: {error}") from None
        if choice is None and versions.default is None:
            raise NotFoundError(f"Servable not found for request: Latest({versions.model_name})")
        return versions.borrow(versions.version_of(spec.version_label) if choice == "version_label" else version)

    def declared(self, engine: Engine, signature: str) -> meta_graph_pb2.SignatureDef:
        """Returns what a signature takes and gives.

        Raises:
            PreconditionError: there is no such signature.
        """
        if signature not in engine.signatures or signature == _INITIALIZER:
            raise PreconditionError(f'Serving signature key "{signature[:80]}" not found.')
        return engine.signatures[signature]

    def check(self, tensors: Mapping[str, TensorSpec], signature: meta_graph_pb2.SignatureDef) -> None:
        """Checks the inputs for a signature before there are arrays of them: a few bytes can declare a large one.

        Raises:
            InputError: an input is missing, unknown, too large, or of another type or shape.
        """
        _check_names(tensors, signature.inputs)
        if (size := sum(tensor.size for tensor in tensors.values())) > self._config.max_message_bytes:
            raise InputError(
                f"tensors of {size} bytes, 8 for a string: the server takes at most {self._config.max_message_bytes}"
            )
        for alias, info in signature.inputs.items():
            _check_kind(alias, tensors[alias], info)
            shape = tensors[alias].shape
            if shape and shape[0] > self._config.max_batch:
                raise InputError(f"{alias}: a batch of {shape[0]}: the server takes at most {self._config.max_batch}")

    def predict(
        self, engine: Engine, signature: str, inputs: Mapping[str, np.ndarray], outputs: Iterable[str] = ()
    ) -> dict[str, np.ndarray]:
        """Runs a signature of a borrowed version on arrays by name, of which those of objects are strings.

        Returns:
            The `outputs` in their order, by default all by name.

        Raises:
            PreconditionError: there is no such signature.
            InputError: an input is missing, unknown, too large, or of another type or shape, or an output is unknown.
            tf.errors.OpError: the graph failed.
        """
        known = self.declared(engine, signature)
        self.check({alias: _spec_of(value) for alias, value in inputs.items()}, known)
        _check_values(inputs)
        if features.EVIDENCE_STATES in inputs:
            most = max(self._config.max_evidence, len(engine.vocabulary))
            _check_messages(inputs[features.EVIDENCE_STATES], most)
        wanted = _chosen(outputs, known.outputs)
        try:
            with current().timed(MODEL):
                everything = engine.predict(signature, inputs)
        except tf.errors.InvalidArgumentError as error:
            raise InputError(error.message) from error
        answer = {alias: everything[alias] for alias in wanted}
        decisions = to_decisions(everything, engine.info) if self._telemetry.metrics else ()
        self._telemetry.record_predict(engine.info.model_version, signature, inputs, answer, decisions)
        return answer


def spec_of(request: Any) -> model_pb2.ModelSpec:
    """Returns which model and version a request of TensorFlow Serving's services is about.

    Raises:
        InputError: it does not say, or has no name.
    """
    if not request.HasField("model_spec"):
        raise InputError("Missing ModelSpec")
    spec: model_pb2.ModelSpec = request.model_spec
    if not spec.name:
        raise InputError("ModelSpec has no name specified.")
    return spec


def _spec_of(values: np.ndarray) -> TensorSpec:
    return TensorSpec(tf.as_dtype(values.dtype).as_datatype_enum, values.shape)


def _check_names(sent: Mapping[str, object], known: Mapping[str, object]) -> None:
    if set(sent) != set(known):
        sets = [",".join(sorted(names)) for names in (sent, known, set(sent) - set(known), set(known) - set(sent))]
        raise InputError(
            f"input size does not match signature: {len(sent)}!={len(known)} len({{{sets[0]}}}) != len({{{sets[1]}}}). "
            f"Sent extra: {{{sets[2]}}}. Missing but required: {{{sets[3]}}}."
        )


def _check_kind(alias: str, tensor: TensorSpec, info: meta_graph_pb2.TensorInfo) -> None:
    if tensor.dtype != info.dtype:
        raise InputError(f"Expects {alias} to be {_type_name(info.dtype)} but {_type_name(tensor.dtype)} is provided")
    limits = [dimension.size for dimension in info.tensor_shape.dim]
    shape = tensor.shape
    if shape is None or len(shape) != len(limits) or not all(map(_fits, shape, limits)):
        wanted = ",".join("?" if limit == -1 else str(limit) for limit in limits)
        raise InputError(
            f"Expects {alias} to have shape [{wanted}] but [{','.join(map(str, shape or ()))}] is provided"
        )


def _fits(size: int, limit: int) -> bool:
    return size >= 0 and limit in (-1, size)


def _check_values(inputs: Mapping[str, np.ndarray]) -> None:
    """Refuses batches of different sizes, which the graph may broadcast, and numbers that are not finite."""
    sizes = {alias: len(value) for alias, value in sorted(inputs.items()) if value.ndim}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{alias} {size}" for alias, size in sizes.items())
        raise InputError(f"Expects inputs of the same batch size but got {listed}")
    for alias, value in inputs.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise InputError(f"Expects {alias} to be finite but NaN or infinity is provided")
        if alias == features.STATES and not np.isin(value, (-1, 0, 1)).all():  # versions of before do not refuse them
            raise InputError(f"Expects {alias} to be -1, 0 or 1")


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


def _chosen(wanted: Iterable[str], known: Mapping[str, object]) -> list[str]:
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


def _type_name(number: int) -> str:
    """Returns the name of a type in TensorFlow's own messages."""
    try:
        name = tf.as_dtype(number).name
    except TypeError:
        return f"DataType {number}"
    return {"float32": "float", "float64": "double"}.get(name, name)

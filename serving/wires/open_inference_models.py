"""What the Open Inference Protocol asks of models, whatever carries it: readiness, metadata and inference."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

from schemas import VERSION, features
from schemas.errors import InputError
from serving.engine.engine import Engine
from serving.errors import NotFoundError
from serving.wires.open_inference_tensors import Given, datatype_of, read_inputs
from serving.wires.signatures import Signatures, version_number

SERVER_NAME = "dyqn-triage"
EXTENSIONS = ("binary_tensor_data",)
PLATFORM = "tensorflow_savedmodel"
SIGNATURE = "signature_name"
"""The parameter of a request that names the signature, which is not part of the protocol."""


class TensorMetadata(NamedTuple):
    """An input or output: its name, type, and size in each dimension, -1 for any."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(NamedTuple):
    """A model, the numbers of its versions that can answer, and the tensors of its default signature."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class Answer(NamedTuple):
    """What a version of a model answered: its outputs by name."""

    model_name: str
    model_version: str
    outputs: Mapping[str, np.ndarray]


class OpenModels:
    """Answers from the signatures of a server's models."""

    def __init__(self, signatures: Signatures):
        self._signatures = signatures

    @property
    def ready(self) -> bool:
        """Whether each model can answer."""
        return self._signatures.models.ready

    def is_ready(self, name: str, version: str) -> bool:
        """Returns whether a version of a model, by default the default one, can answer."""
        try:
            with self._borrow(name, version):
                return True
        except (InputError, NotFoundError):
            return False

    def metadata(self, name: str, version: str) -> ModelMetadata:
        """Describes a model.

        Raises:
            NotFoundError: this server does not serve the model or version.
        """
        with self._borrow(name, version) as engine:
            signature = engine.signatures[features.SERVING_DEFAULT]
        versions = [str(number) for number in sorted(self._signatures.models.named(name).versions.loaded)]
        return ModelMetadata(name, versions, PLATFORM, _described(signature.inputs), _described(signature.outputs))

    def infer(self, name: str, version: str, signature: str, inputs: Sequence[Given], outputs: Sequence[str]) -> Answer:
        """Runs a signature.

        Args:
            name: of the model.
            version: its number, "" for the default version.
            signature: its name, "" for `serving_default`.
            inputs: all inputs of the signature.
            outputs: names of the wanted outputs, none for all.

        Raises:
            NotFoundError: this server does not serve the model or version.
            PreconditionError: there is no such signature.
            InputError: inputs or outputs do not fit the signature.
        """
        signature = signature or features.SERVING_DEFAULT
        with self._borrow(name, version) as engine:
            arrays = read_inputs(inputs, self._signatures.declared(engine, signature))
            answer = self._signatures.predict(engine, signature, arrays, outputs)
            return Answer(name, engine.info.model_version, answer)

    def _borrow(self, name: str, version: str) -> contextlib.AbstractContextManager[Engine]:
        return self._signatures.borrow(name, None if not version else version_number(name, version))


def described_server() -> dict[str, Any]:
    """Returns the name and version of this program, and what it offers beyond the protocol."""
    return {"name": SERVER_NAME, "version": VERSION, "extensions": list(EXTENSIONS)}


def _described(tensors: Mapping[str, meta_graph_pb2.TensorInfo]) -> list[TensorMetadata]:
    return [
        TensorMetadata(name, datatype_of(info.dtype), [dimension.size for dimension in info.tensor_shape.dim])
        for name, info in sorted(tensors.items())
    ]

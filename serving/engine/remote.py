"""Versions that another TensorFlow Serving has loaded and of which this machine has a copy."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import get_model_status_pb2, predict_pb2

from schemas import features
from schemas.errors import InputError
from schemas.model_directory import list_versions, read_version
from serving.call import MODEL, PARSE, RESPOND, current
from serving.engine import warmup
from serving.engine.connection import Connection
from serving.engine.dense_states import MessageEncoder, to_questions
from serving.engine.engine import Engine
from serving.engine.state_tensors import Responses, outputs_of, to_inputs
from serving.errors import GoneError, UnavailableError
from triage.v1 import triage_pb2


class RemoteEngine(Engine):
    """One version of a remote model, with manifest and vocabulary from the local copy of the version.

    Args:
        connection: to the TensorFlow Serving.
        model_name: the name of the remote model.
        folder: the local copy, whose number is that of the remote version.

    Raises:
        InputError: the local copy is damaged, or the remote version of its number is another model.
        UnavailableError: and the other errors of `Connection`.
    """

    def __init__(self, connection: Connection, model_name: str, folder: pathlib.Path):
        self._connection = connection
        self._model_name = model_name
        self.info, self.vocabulary = read_version(folder)
        self._encoder = MessageEncoder(self.vocabulary)
        self._responses = Responses(self.info)
        self._check_same_model(folder)

    def triage(
        self, states: Sequence[triage_pb2.EvidenceState], timeout_seconds: float | None = None
    ) -> list[triage_pb2.TriageResponse]:
        """Returns one response for each state, in the same order, from one call of Predict.

        Raises:
            UnavailableError: and the other errors of `Connection`.
        """
        call = current()
        with call.timed(PARSE):
            inputs = to_inputs(states)
        with call.timed(MODEL):
            outputs = self._predict(features.SERVING_DEFAULT, inputs, outputs_of(self.info), timeout_seconds)
        with call.timed(RESPOND):
            return self._responses.of(outputs)

    def next_questions(
        self, states: Sequence[triage_pb2.EvidenceState], number: int, not_to_ask: Sequence[str] = ()
    ) -> list[list[triage_pb2.NextQuestion]]:
        """Returns the best questions to ask next in each state, from one call of Predict.

        Raises:
            UnavailableError: and the other errors of `Connection`.
        """
        inputs = self._encoder.encode_questions(states, not_to_ask)
        outputs = self._predict(features.QUESTIONS, inputs)
        return to_questions(outputs, inputs, self.vocabulary, number)

    def _predict(
        self,
        signature: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str] = (),
        timeout_seconds: float | None = None,
    ) -> dict[str, np.ndarray]:
        """Returns these outputs of a signature, all by default."""
        request = predict_pb2.PredictRequest(output_filter=outputs)
        request.model_spec.name = self._model_name
        request.model_spec.signature_name = signature
        request.model_spec.version.value = int(self.info.model_version)
        for alias, value in inputs.items():
            request.inputs[alias].CopyFrom(tf.make_tensor_proto(value))
        response = self._connection.predict(request, timeout_seconds)
        return {alias: tf.make_ndarray(response.outputs[alias]) for alias in outputs or response.outputs}

    def _check_same_model(self, folder: pathlib.Path) -> None:
        """Compares the fingerprints of both vocabularies, as equal version numbers do not make the same model."""
        state = triage_pb2.EvidenceState().SerializeToString()
        inputs = {features.EVIDENCE_STATES: np.array([state], object)}
        answer = self._predict(features.TRIAGE, inputs, [features.TRIAGE_RESPONSES])[features.TRIAGE_RESPONSES][0]
        fingerprint = triage_pb2.TriageResponse.FromString(answer).vocabulary_fingerprint
        if fingerprint != self.info.vocabulary_fingerprint:
            raise InputError(
                f"{folder}: TensorFlow Serving at {self._connection.address} serves another model as version "
                f"{self.info.model_version}: its vocabulary is {fingerprint}, here it is "
                f"{self.info.vocabulary_fingerprint}"
            )


_AVAILABLE = get_model_status_pb2.ModelVersionStatus.AVAILABLE


class RemoteModels:
    """Finds the versions that the remote server has available and that have a local folder.

    Args:
        connection: to the TensorFlow Serving.
        model_name: the name of the remote model.
    """

    def __init__(self, connection: Connection, model_name: str):
        self._connection = connection
        self._model_name = model_name

    def versions(self, base: pathlib.Path) -> dict[int, pathlib.Path]:
        """Returns the local folder of each version that is available remotely.

        Raises:
            InputError: the base path cannot be read.
            UnavailableError: the TensorFlow Serving cannot list its versions, or has none with a local folder.
        """
        here = list_versions(base)
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = self._model_name
        try:
            entries = self._connection.status(request).model_version_status
        except GoneError as error:
            raise UnavailableError(
                f"TensorFlow Serving at {self._connection.address} serves no model {self._model_name!r}: "
                "give its name with --model-name"
            ) from error
        there = {entry.version for entry in entries if entry.state == _AVAILABLE}
        if not there & here.keys():
            raise UnavailableError(
                f"TensorFlow Serving at {self._connection.address} serves the versions {sorted(there)} of "
                f"{self._model_name!r}; {base} has {sorted(here)}: expected a version that both have"
            )
        return {number: folder for number, folder in here.items() if number in there}

    def load(self, folder: pathlib.Path) -> RemoteEngine:
        """Returns the engine of a version, warm.

        Raises:
            InputError: the local copy is damaged, or differs from the remote version.
            UnavailableError: and the other errors of `Connection`.
        """
        engine = RemoteEngine(self._connection, self._model_name, folder)
        warmup.warm_up(engine)
        return engine

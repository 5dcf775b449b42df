"""What answers evidence states: the model behind the service."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

from schemas import features
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.model_directory import ModelInfo, read_version
from serving.call import MODEL, PARSE, RESPOND, current
from serving.models.dense_states import StateEncoder
from serving.models.saved_model import SavedModel
from serving.models.state_tensors import to_responses
from triage.v1 import triage_pb2

THREADS = "TF_NUM_INTRAOP_THREADS"
"""TensorFlow's own variable: the number of threads that share the work of one operation."""


class Engine(Protocol):
    """What the service needs of a model, wherever it runs. Calls come from several threads at once."""

    @property
    def info(self) -> ModelInfo:
        """The model that answers."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The evidence that the model knows."""

    def triage(
        self, states: Sequence[triage_pb2.EvidenceState], timeout_seconds: float | None = None
    ) -> list[triage_pb2.TriageResponse]:
        """Returns one response for each state, in their order; codes that the model does not know are listed in it.

        `timeout_seconds` is what is left of the caller's deadline, None where there is none.
        """


def run_in_one_thread() -> None:
    """Has TensorFlow run each operation in one thread, unless TF_NUM_INTRAOP_THREADS says otherwise.

    To share the products of one small batch out costs more than it gains, and the cores have other calls to answer.
    TensorFlow reads the variable once, when it first runs anything in this process.
    """
    os.environ.setdefault(THREADS, "1")


class SavedModelEngine:
    """Answers in this process, from one version of an exported model.

    Args:
        folder: the version, `<model base path>/<number>`.

    Raises:
        InputError: the version is damaged.
    """

    def __init__(self, folder: pathlib.Path):
        self._info, self._vocabulary = read_version(folder)
        self._encoder = StateEncoder(self._vocabulary)
        try:
            self._model = SavedModel(folder)
        except Exception as error:  # of a half-written model TensorFlow complains with ValueError, KeyError and others
            raise InputError(f"{folder}: cannot load the SavedModel: export the model again: {error}") from error
        for name in (features.SERVING_DEFAULT, features.STATE):
            if name not in self.signatures:
                raise InputError(f"{folder}: no signature {name!r}: expected a model that `triage export` wrote")

    @property
    def info(self) -> ModelInfo:
        """The model that answers."""
        return self._info

    @property
    def vocabulary(self) -> Vocabulary:
        """The evidence that the model knows."""
        return self._vocabulary

    @property
    def signatures(self) -> Mapping[str, meta_graph_pb2.SignatureDef]:
        """The signatures as the SavedModel states them, by name; TensorFlow's own `__saved_model_init_op` is one."""
        return self._model.signatures

    def predict(self, signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs one signature, whose inputs have been checked against `signatures`.

        Raises:
            KeyError: the signature cannot be called.
            tf.errors.OpError: the graph failed.
        """
        return self._model.run(signature, inputs)

    def triage(
        self, states: Sequence[triage_pb2.EvidenceState], timeout_seconds: float | None = None
    ) -> list[triage_pb2.TriageResponse]:
        """Returns one response for each state, in their order, from one run of the graph, which nothing interrupts.

        A code that the model does not know, or that is both present and absent, has no part in the decision and is
        listed in the response. Where nothing is known the answer is ASK. All this is what the signature
        `serving_default` does; the codes are looked up here, where that takes less time.

        Raises:
            tf.errors.OpError: the graph failed.
        """
        call = current()
        with call.timed(PARSE):
            encoded = self._encoder.encode(states)
        with call.timed(MODEL):
            outputs = self.decide(encoded.states, encoded.questions_asked)
        with call.timed(RESPOND):
            codes = {
                features.UNKNOWN_CODES: encoded.unknown_codes,
                features.CONFLICTING_CODES: encoded.conflicting_codes,
            }
            return to_responses({**outputs, **codes}, self._info)

    def decide(self, states: np.ndarray, questions_asked: np.ndarray) -> Mapping[str, np.ndarray]:
        """Returns the outputs of the signature `state` for states float32 `[B, E]` and questions asked int32 `[B]`."""
        return self.predict(features.STATE, {features.STATES: states, features.QUESTIONS_ASKED: questions_asked})

"""What answers evidence states: the model behind the service."""

import os
import pathlib
from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from schemas import features
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from serving.model_directory import ModelInfo, find_version, read_version
from triage.v1 import triage_pb2


class Engine(Protocol):
    """What the service needs of a model, wherever it runs. Calls come from several threads at once."""

    @property
    def info(self) -> ModelInfo:
        """The model that answers."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The evidence that the model knows."""

    def triage(self, states: Sequence[triage_pb2.EvidenceState]) -> list[triage_pb2.TriageResponse]:
        """Returns one response for each state, in their order; codes that the model does not know are listed in it."""


class SavedModelEngine:
    """Answers in this process, from one version of an exported model.

    Args:
        base_path: the model base path, which holds a folder for each version.
        version: number of the version, the highest by default.

    Raises:
        InputError: there is no such version, or it is damaged.
    """

    def __init__(self, base_path: str | os.PathLike[str], version: int | None = None):
        folder = find_version(pathlib.Path(base_path), version)
        self._info, self._vocabulary = read_version(folder)
        try:
            # Kept whole: its signatures do not keep the variables alive that they read.
            self._model = tf.saved_model.load(os.fspath(folder))
        except (OSError, tf.errors.OpError) as error:
            raise InputError(f"{folder}: cannot load the SavedModel: export the model again: {error}") from error
        if features.TRIAGE not in self._model.signatures:
            raise InputError(f"{folder}: no signature {features.TRIAGE!r}: expected a model that `triage export` wrote")
        self._triage = self._model.signatures[features.TRIAGE]

    @property
    def info(self) -> ModelInfo:
        """The model that answers."""
        return self._info

    @property
    def vocabulary(self) -> Vocabulary:
        """The evidence that the model knows."""
        return self._vocabulary

    def triage(self, states: Sequence[triage_pb2.EvidenceState]) -> list[triage_pb2.TriageResponse]:
        """Returns one response for each state, in their order, from one run of the graph.

        A code that the model does not know, or that is both present and absent, has no part in the decision and is
        listed in the response. A state without evidence gets what the network makes of the empty state.

        Raises:
            tf.errors.OpError: the graph failed.
        """
        serialized = tf.constant([state.SerializeToString() for state in states], tf.string, shape=[len(states)])
        outputs = self._triage(**{features.EVIDENCE_STATES: serialized})
        answers = outputs[features.TRIAGE_RESPONSES].numpy()
        responses = [triage_pb2.TriageResponse.FromString(answer) for answer in answers]
        for response in responses:
            response.model_version = self._info.model_version  # its folder may have been renamed since the export
        return responses

"""Runs the TFLite file beside a version's SavedModel with LiteRT."""

import contextlib
import dataclasses
import hashlib
import logging
import os
import pathlib
import queue
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from schemas import directories, features, parity
from schemas.errors import InputError
from schemas.model_directory import ModelInfo
from serving.engine.engine import EncodingEngine
from serving.errors import EngineError
from triage_runtime.litert import LiteRtModel

_LOGGER = logging.getLogger(__name__)
_MOST_INTERPRETERS = 8  # each holds a copy of the weights, packed for its processor

MOST_STATES = 64
"""Largest batch for LiteRT; the SavedModel is as fast for larger ones (docs/serving.md)."""
MOST_ASKED = 4
"""Most states in which LiteRT chooses questions, one after the other; of more, the SavedModel does so in less time."""
BRIEF_BYTES = 24 * 2**20
"""Length of a TFLite file up to which one state takes a millisecond or two, the time to read its weights once."""


class InterpreterPool:
    """Interpreters of a TFLite file for several threads, as each can run one call at a time; by default one per core.

    Raises:
        InputError: LiteRT is not installed, or `content` is not a TFLite file with the signature `state`.
    """

    def __init__(self, content: bytes, interpreters: int | None = None):
        self._content = content
        places = interpreters or min(os.cpu_count() or 1, _MOST_INTERPRETERS)
        first = LiteRtModel(content)
        self.asks = first.asks
        """Whether the file has the signature `questions`."""
        # None stands for an interpreter not made yet. The last entry is taken first, so none is made needlessly.
        self._idle: queue.LifoQueue[LiteRtModel | None] = queue.LifoQueue(places)
        for model in [*[None] * (places - 1), first]:
            self._idle.put(model)

    @property
    def brief(self) -> bool:
        """Whether LiteRT answers one state faster than a thread takes over.

        The network must be small, and no interpreter in use: the event loop must neither wait for one nor make another.
        """
        return len(self._content) <= BRIEF_BYTES and self._idle.full()

    @contextlib.contextmanager
    def lent(self, wait: bool = True) -> Iterator[LiteRtModel]:
        """Lends an interpreter for the length of a `with` block; one for which the block fails is not used again.

        Raises:
            queue.Empty: all are in use, and the caller does not `wait`.
        """
        model = self._idle.get(block=wait)
        try:
            model = model or LiteRtModel(self._content)
            yield model
        except InputError:
            model = None
            raise
        finally:
            self._idle.put(model)


def read_litert_model(folder: pathlib.Path, info: ModelInfo) -> InterpreterPool:
    """Returns the model in the LiteRT file of the version in `folder`.

    Raises:
        InputError: the file cannot be read, is not the exported one, or cannot be run. LiteRT checks files less than
            TensorFlow does, and a damaged one could crash the process, so the digest must match.
    """
    path = folder / directories.LITERT
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != info.litert_sha256:
        raise InputError(f"{path}: damaged: its SHA-256 differs from the one in {directories.MANIFEST}")
    try:
        return InterpreterPool(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


class LiteRtEngine(EncodingEngine):
    """Runs one version with LiteRT alone, without TensorFlow and so without signatures to predict with.

    Batches above `MOST_STATES` are run in parts, as the answers were compared with the SavedModel's, at the export, for
    batches up to that size.

    Raises:
        InputError: the version is damaged, or LiteRT answers with Q-values that are not finite.
    """

    def __init__(self, folder: pathlib.Path):
        super().__init__(folder)
        self._litert = read_litert_model(folder, self.info)
        if self.info.questions and not self._litert.asks:
            _LOGGER.warning("version %s: LiteRT cannot choose questions: export it again", self.info.model_version)
            self.info = dataclasses.replace(self.info, questions=False)
        with self._litert.lent() as model:
            outputs = model.run(*parity.probes(self.info.evidence_count, self.info.max_questions, MOST_STATES))
        if not np.isfinite(outputs[features.Q_VALUES]).all():
            raise InputError(f"{folder / directories.LITERT}: the Q-values are not finite: export the model again")
        _LOGGER.info("version %s: LiteRT runs it", self.info.model_version)

    @property
    def brief(self) -> bool:
        """As the interpreters'."""
        return self._litert.brief

    def decide(self, states: np.ndarray, questions_asked: np.ndarray) -> Mapping[str, np.ndarray]:
        """Returns the outputs of the signature `state` for states float32 `[B, E]` and questions asked int32 `[B]`.

        Raises:
            EngineError: LiteRT failed.
        """
        ends = range(MOST_STATES, len(states) + MOST_STATES, MOST_STATES)
        with self._lent() as model:
            parts = [
                model.run(states[end - MOST_STATES : end], questions_asked[end - MOST_STATES : end]) for end in ends
            ]
        return _joined(parts)

    def choose_questions(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Returns the outputs of the signature `questions` for its inputs, `[B, E]` each.

        Raises:
            EngineError: LiteRT failed.
        """
        with self._lent() as model:
            return ask_each(model, inputs[features.STATES], inputs[features.NOT_TO_ASK])

    @contextlib.contextmanager
    def _lent(self) -> Iterator[LiteRtModel]:
        try:
            with self._litert.lent() as model:
                yield model
        except InputError as error:  # not the caller's fault
            _LOGGER.error("version %s: %s", self.info.model_version, error)
            raise EngineError("LiteRT failed; see the server's log") from error


def ask_each(model: LiteRtModel, states: np.ndarray, not_to_ask: np.ndarray) -> Mapping[str, np.ndarray]:
    """Returns the best questions of one state after the other, as the file asks about one at a time."""
    pairs = zip(states, not_to_ask, strict=True)
    return _joined([model.ask(state[np.newaxis], withheld[np.newaxis]) for state, withheld in pairs])


def _joined(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

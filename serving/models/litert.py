"""Runs small batches with LiteRT, from the TFLite file beside a version's SavedModel."""

import contextlib
import hashlib
import itertools
import logging
import os
import pathlib
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from schemas import directories, parity
from schemas.errors import InputError
from schemas.model_directory import LiteRtModel, ModelInfo
from serving.models.engine import SavedModelEngine

_MOST_INTERPRETERS = 8  # each holds a copy of the weights, packed for its processor

_BANNER = b"Created TensorFlow Lite XNNPACK delegate"
_STANDARD_ERROR = threading.Lock()  # held by the thread that redirects standard error


class InterpreterPool:
    """Runs a TFLite file in several threads at once, each with an interpreter, which can run one call at a time.

    Args:
        content: the whole file.
        interpreters: largest number of interpreters; by default one per core, up to 8.

    Raises:
        InputError: LiteRT is not installed, or `content` is not a TFLite file with the signature `state`.
    """

    def __init__(self, content: bytes, interpreters: int | None = None):
        self._content = content
        places = interpreters or min(os.cpu_count() or 1, _MOST_INTERPRETERS)
        with _STANDARD_ERROR, _without_banner():
            first = LiteRtModel(content)
        # None stands for an interpreter not made yet. The last entry is taken first, so none is made needlessly.
        self._idle: list[LiteRtModel | None] = [*[None] * (places - 1), first]

    @property
    def size(self) -> int:
        """Length of the file in bytes, which is mostly weights."""
        return len(self._content)

    def run(self, states: np.ndarray, questions_asked: np.ndarray) -> Mapping[str, np.ndarray] | None:
        """Returns the outputs, `[B, ...]` each, for states float32 `[B, E]` and questions asked int32 `[B]`, B >= 1.

        None if all interpreters are in use.

        Raises:
            InputError: LiteRT failed; the interpreter is not used again.
        """
        try:
            model = self._idle.pop()
        except IndexError:
            return None
        try:
            model = model or LiteRtModel(self._content)
            return model.run(states, questions_asked)
        except InputError:
            model = None
            raise
        finally:
            self._idle.append(model)


@contextlib.contextmanager
def _without_banner() -> Iterator[None]:
    """Removes the line that LiteRT writes to standard error with the first interpreter of a process.

    LiteRT has no setting for it. Whatever other threads write meanwhile appears a moment later. The line stays on
    systems without in-memory files.
    """
    try:
        sys.stderr.flush()
        held, shown = os.memfd_create("stderr"), os.dup(2)
    except (AttributeError, OSError):
        yield
        return
    os.dup2(held, 2)
    try:
        yield
    finally:
        os.dup2(shown, 2)
        os.lseek(held, 0, os.SEEK_SET)
        with open(held, "rb") as lines:
            os.write(shown, b"".join(line for line in lines if _BANNER not in line))
        os.close(shown)


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


_LOGGER = logging.getLogger(__name__)

MOST_STATES = 64
"""Largest batch for LiteRT; the SavedModel is as fast for larger ones (docs/serving.md)."""
BRIEF_BYTES = 16 * 2**20
"""Length of a TFLite file up to which one state takes a millisecond or two, the time to read its weights once."""
_SIZES = (1, 2, 3, 5, 8, 13, 64)  # sizes of the checked batches, as the computation depends on the size


class LiteRtEngine(SavedModelEngine):
    """Runs small batches with LiteRT, and everything else with the SavedModel.

    If the TFLite file is missing or damaged, or its answers differ from the SavedModel's, the log says so, and the
    SavedModel runs everything.

    Args:
        folder: the version, `<model base path>/<number>`.
        most_states: largest batch for LiteRT.

    Raises:
        InputError: the SavedModel is damaged.
    """

    def __init__(self, folder: pathlib.Path, most_states: int = MOST_STATES):
        super().__init__(folder)
        self._most_states = most_states
        self.litert: InterpreterPool | None = None
        version = self.info.model_version
        try:
            model = read_litert_model(folder, self.info)
            self._check(model)
        except InputError as error:
            _LOGGER.warning("version %s: LiteRT is not used: %s", version, error)
            return
        self.litert = model
        _LOGGER.info("version %s: LiteRT runs up to %d states at once", version, most_states)

    @property
    def brief_states(self) -> int:
        """1 for a network so small that LiteRT answers one state faster than a thread takes over, else 0."""
        return 1 if self.litert is not None and self.litert.size <= BRIEF_BYTES else 0

    def decide(self, states: np.ndarray, questions_asked: np.ndarray) -> Mapping[str, np.ndarray]:
        """Returns the outputs of the signature `state`, as those of `SavedModelEngine`."""
        if self.litert is not None and 0 < len(states) <= self._most_states:
            try:
                outputs = self.litert.run(states, questions_asked)
            except InputError as error:  # such as lack of memory; the SavedModel can still answer the caller
                version, self.litert = self.info.model_version, None
                _LOGGER.error("version %s: LiteRT failed and is no longer used: %s", version, error)
            else:
                if outputs is not None:
                    return outputs
        return super().decide(states, questions_asked)

    def _check(self, model: InterpreterPool) -> None:
        """Raises InputError if the answers of `model` differ from those of the SavedModel."""
        states, questions_asked = parity.probes(self.info.evidence_count, self.info.max_questions, sum(_SIZES))
        ends = list(itertools.accumulate(_SIZES))
        parts: list[Any] = [
            model.run(states[end - size : end], questions_asked[end - size : end])
            for size, end in zip(_SIZES, ends, strict=True)
        ]
        outputs = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        fault = parity.difference(outputs, super().decide(states, questions_asked), self.info)
        if fault:
            raise InputError(f"LiteRT and the SavedModel differ: {fault}")

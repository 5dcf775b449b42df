"""LiteRT answers small batches of a version, from the file beside its SavedModel."""

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

from schemas import directories, features, parity
from schemas.errors import InputError, first_line
from schemas.model_directory import ModelInfo
from serving.models.engine import SavedModelEngine

try:
    from ai_edge_litert.interpreter import Interpreter
except ImportError:  # where LiteRT cannot be had, the SavedModel answers
    Interpreter = None

_MOST_INTERPRETERS = 8  # each holds the weights once more, in the order in which its processor multiplies them

_GREETING = b"Created TensorFlow Lite XNNPACK delegate"
_ONE_AT_A_TIME = threading.Lock()  # who holds back what is written to standard error


class InterpreterPool:
    """Runs a TFLite file in several threads at once, each with an interpreter, which can run one call at a time.

    Args:
        content: the whole file.
        interpreters: how many may be made; by default as many as there are cores, but 8 at most.

    Raises:
        InputError: LiteRT is not installed, or `content` is no TFLite file with the signature.
    """

    def __init__(self, content: bytes, interpreters: int | None = None):
        if Interpreter is None:
            raise InputError("LiteRT is not installed: pip install ai-edge-litert")
        self._content = content  # which interpreters read from, and do not keep alive
        places = interpreters or min(os.cpu_count() or 1, _MOST_INTERPRETERS)
        with _ONE_AT_A_TIME, _without_greeting():
            first = self._new_runner()
        # None is one that may still be made. The last one is taken first, so that none is made without need.
        self._idle: list[Any] = [*[None] * (places - 1), first]

    @property
    def size(self) -> int:
        """Length of the file in bytes, most of which are weights."""
        return len(self._content)

    def run(self, states: np.ndarray, questions_asked: np.ndarray) -> Mapping[str, np.ndarray] | None:
        """Returns the outputs, `[B, ...]` each, for states float32 `[B, E]` and questions asked int32 `[B]`, B >= 1.

        None where as many calls are under way as there may be interpreters.

        Raises:
            InputError: LiteRT failed; that interpreter is not used again.
        """
        try:
            runner = self._idle.pop()
        except IndexError:
            return None
        try:
            runner = runner or self._new_runner()
            outputs: Mapping[str, np.ndarray] = runner(
                **{features.STATES: states, features.QUESTIONS_ASKED: questions_asked}
            )
        except (ValueError, RuntimeError) as error:
            runner = None
            raise InputError(f"LiteRT cannot run the file: {first_line(error)}") from error
        finally:
            self._idle.append(runner)
        return outputs

    def _new_runner(self) -> Any:
        try:
            interpreter = Interpreter(model_content=self._content, num_threads=1)
            interpreter.allocate_tensors()
            return interpreter.get_signature_runner(features.STATE)
        except (ValueError, RuntimeError) as error:
            raise InputError(f"LiteRT cannot run the file: {first_line(error)}") from error


@contextlib.contextmanager
def _without_greeting() -> Iterator[None]:
    """Keeps a line from standard error that LiteRT writes there with the first interpreter of a process.

    It has no setting for that, and no log of the server's has such lines. What others write meanwhile comes a moment
    later; where the system has no files in memory, the line stays.
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
            os.write(shown, b"".join(line for line in lines if _GREETING not in line))
        os.close(shown)


def read_litert_model(folder: pathlib.Path, info: ModelInfo) -> InterpreterPool:
    """Returns the model in the LiteRT file of the version in `folder`.

    Raises:
        InputError: the file cannot be read, is not the one that was exported, or cannot be run. LiteRT looks at less of
            what it runs than TensorFlow does: a damaged file could end the process, so it must be whole.
    """
    path = folder / directories.LITERT
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != info.litert_sha256:
        raise InputError(f"{path}: is damaged: its SHA-256 is not the one in {directories.MANIFEST}")
    try:
        return InterpreterPool(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


_LOGGER = logging.getLogger(__name__)

MOST_STATES = 64
"""In one run; for more the SavedModel is as fast (docs/serving.md)."""
BRIEF_BYTES = 16 * 2**20
"""Length of a LiteRT file up to which one state takes no more than a millisecond or two: its weights are read once."""
_SIZES = (1, 2, 3, 5, 8, 13, 64)  # of the check's batches, as the computation is not the same for each size


class LiteRtEngine(SavedModelEngine):
    """Answers small batches with LiteRT, and all else with the SavedModel.

    Where the LiteRT file is missing or damaged, or does not answer as the SavedModel does, the log says so, and the
    SavedModel answers everything.

    Args:
        folder: the version, `<model base path>/<number>`.
        most_states: in one run of LiteRT.

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
            _LOGGER.warning("version %s: the SavedModel answers small batches too: %s", version, error)
            return
        self.litert = model
        _LOGGER.info("version %s: LiteRT answers up to %d states at once", version, most_states)

    @property
    def brief_states(self) -> int:
        """The most states that LiteRT answers in less time than it takes to have a thread do it, 0 for none."""
        return 1 if self.litert is not None and self.litert.size <= BRIEF_BYTES else 0

    def decide(self, states: np.ndarray, questions_asked: np.ndarray) -> Mapping[str, np.ndarray]:
        """Returns the outputs of the signature `state`, as `SavedModelEngine` does."""
        if self.litert is not None and 0 < len(states) <= self._most_states:
            try:
                outputs = self.litert.run(states, questions_asked)
            except InputError as error:  # such as for want of memory; a caller need not pay for it
                version, self.litert = self.info.model_version, None
                _LOGGER.error("version %s: the SavedModel answers small batches from now on: %s", version, error)
            else:
                if outputs is not None:
                    return outputs
        return super().decide(states, questions_asked)

    def _check(self, model: InterpreterPool) -> None:
        """Raises InputError where `model` does not answer as the SavedModel does."""
        states, questions_asked = parity.probes(self.info.evidence_count, self.info.max_questions, sum(_SIZES))
        ends = list(itertools.accumulate(_SIZES))
        parts: list[Any] = [
            model.run(states[end - size : end], questions_asked[end - size : end])
            for size, end in zip(_SIZES, ends, strict=True)
        ]
        outputs = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        fault = parity.difference(outputs, super().decide(states, questions_asked))
        if fault:
            raise InputError(f"LiteRT answers otherwise than the SavedModel: {fault}")

"""The signature `state` of a version, run by LiteRT in place of TensorFlow."""

import contextlib
import hashlib
import json
import os
import pathlib
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from schemas import directories, features
from schemas.errors import InputError, first_line
from serving.model_directory import ModelInfo

try:
    from ai_edge_litert.interpreter import Interpreter
except ImportError:  # where LiteRT cannot be had, the SavedModel answers
    Interpreter = None

_MOST_INTERPRETERS = 8  # each holds the weights once more, in the order in which its processor multiplies them

_GREETING = b"Created TensorFlow Lite XNNPACK delegate"
_ONE_AT_A_TIME = threading.Lock()  # who holds back what is written to standard error


class LiteRtModel:
    """Runs the file in several threads at once, with an interpreter for each, as one runs a single call at a time.

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
            first = self._made()
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
            runner = runner or self._made()
            outputs: Mapping[str, np.ndarray] = runner(
                **{features.STATES: states, features.QUESTIONS_ASKED: questions_asked}
            )
        except (ValueError, RuntimeError) as error:
            runner = None
            raise InputError(f"LiteRT cannot run the file: {first_line(error)}") from error
        finally:
            self._idle.append(runner)
        return outputs

    def _made(self) -> Any:
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


def read_litert_model(folder: pathlib.Path, info: ModelInfo) -> LiteRtModel | None:
    """Returns the model in the LiteRT file of the version in `folder`; None for a version that was exported without.

    Raises:
        InputError: the file cannot be read, is not the one that was exported, or cannot be run. LiteRT looks at less of
            what it runs than TensorFlow does: a damaged file could end the process, so it must be whole.
    """
    try:
        expected = json.loads(info.manifest_json)["litert"]["sha256"]
    except (KeyError, TypeError):
        return None
    path = folder / directories.LITERT
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != expected:
        raise InputError(f"{path}: is damaged: its SHA-256 is not the one in {directories.MANIFEST}")
    try:
        return LiteRtModel(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error

"""LiteRT answers small batches of a version, from the file beside its SavedModel."""

import contextlib
import hashlib
import itertools
import json
import logging
import os
import pathlib
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from schemas import directories, features
from schemas.errors import InputError, first_line
from schemas.model_directory import ModelInfo
from schemas.triage import Action
from serving.models.engine import SavedModelEngine

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


_LOGGER = logging.getLogger(__name__)

MOST_STATES = 64
"""In one run; for more the SavedModel is as fast (docs/serving.md)."""
Q_BOUND = 1e-4
"""On the difference of a Q-value between the two, as in docs/mobile.md; measured differences are a hundredth of it."""
BRIEF_BYTES = 16 * 2**20
"""Length of a LiteRT file up to which one state takes no more than a millisecond or two: its weights are read once."""
NOVELTY_BOUND = 0.05
"""On the difference of a novelty, which goes by percentiles: rounding can move it by one of 200."""

_SIZES = (1, 2, 3, 5, 8, 13, 64)  # of the check's batches, as the computation is not the same for each size


class LiteRtEngine(SavedModelEngine):
    """Answers small batches with LiteRT, and all else with the SavedModel.

    Where the version has no LiteRT file, or one that is damaged or does not answer as the SavedModel does, the log says
    so, and the SavedModel answers everything.

    Args:
        folder: the version, `<model base path>/<number>`.
        most_states: in one run of LiteRT.

    Raises:
        InputError: the SavedModel is damaged.
    """

    def __init__(self, folder: pathlib.Path, most_states: int = MOST_STATES):
        super().__init__(folder)
        self._most_states = most_states
        self.litert: LiteRtModel | None = None
        version = self.info.model_version
        try:
            model = read_litert_model(folder, self.info)
            if model is not None:
                self._check(model)
        except InputError as error:
            _LOGGER.warning("version %s: the SavedModel answers small batches too: %s", version, error)
            return
        self.litert = model
        if model is None:
            _LOGGER.info("version %s: has no LiteRT file: the SavedModel answers small batches too", version)
        else:
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

    def _check(self, model: LiteRtModel) -> None:
        """Raises InputError where `model` does not answer as the SavedModel does."""
        states, questions_asked = probes(self.info.evidence_count, self.info.max_questions, sum(_SIZES))
        ends = list(itertools.accumulate(_SIZES))
        parts: list[Any] = [
            model.run(states[end - size : end], questions_asked[end - size : end])
            for size, end in zip(_SIZES, ends, strict=True)
        ]
        found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        fault = difference(found, super().decide(states, questions_asked))
        if fault:
            raise InputError(f"LiteRT answers otherwise than the SavedModel: {fault}")


def probes(evidence_count: int, max_questions: int, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns `count` random states float32 `[B, E]`, and questions asked int32 `[B]`, to compare two engines with.

    Half of them have as many pieces of evidence as interviews have, the others a third of all present and a third
    absent, so that rules on several codes fire. The first one is empty.
    """
    generator = np.random.default_rng(seed)
    states = generator.integers(-1, 2, [count, evidence_count]).astype(np.float32)
    for row in states[::2]:
        row[:] = 0
        known = generator.integers(1, min(max_questions + 1, evidence_count) + 1)
        row[generator.choice(evidence_count, known, replace=False)] = generator.choice([-1, 1], known)
    states[0] = 0
    return states, generator.integers(0, max_questions + 1, count).astype(np.int32)


def difference(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> str | None:
    """Returns the first difference between outputs of the signature `state` that rounding cannot explain, or None."""
    names = [name for name in expected if name not in (features.ACTION_LABEL, features.BEST_TRIAGE_LABEL)]
    missing = sorted(set(names) - found.keys())
    if missing:
        return f"it lacks {', '.join(missing)}"
    for name, bound in ((features.Q_VALUES, Q_BOUND), (features.NOVELTY, NOVELTY_BOUND)):
        # Written so that a value which is no number is a difference.
        if name in names and not (np.abs(found[name] - expected[name]) <= bound).all():
            return f"{name} by up to {np.abs(found[name] - expected[name]).max():.2g}, more than {bound:g}"
    for name in (features.FORCED, features.RULES_FIRED):
        if name in names and not np.array_equal(found[name], expected[name]):
            return name
    clear = decided_clearly(expected[features.Q_VALUES])
    for name in (features.ACTION, features.BEST_TRIAGE):
        if (clear & (found[name] != expected[name])).any():
            return name
    if features.IS_NOVEL in names:
        same = found[features.NOVELTY] == expected[features.NOVELTY]
        if (same & (found[features.IS_NOVEL] != expected[features.IS_NOVEL])).any():
            return features.IS_NOVEL
    return None


def decided_clearly(q_values: np.ndarray, bound: float = Q_BOUND) -> np.ndarray:
    """Returns the rows of Q-values `[B, A]` in which no decision turns on differences within `bound`, bool `[B]`."""
    best = np.sort(q_values[:, : Action.ASK], axis=1)
    between = best[:, -1] - best[:, -2]
    asking = np.abs(q_values[:, Action.ASK] - best[:, -1])
    apart: np.ndarray = np.minimum(between, asking) > 2 * bound
    return apart

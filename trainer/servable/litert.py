"""Runs a TFLite file with the LiteRT interpreter, one state at a time, as a phone does."""

import dataclasses
import importlib.metadata
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from schemas import features
from schemas.errors import InputError, first_line
from schemas.triage import NUM_ACTIONS, NUM_DECISIONS
from trainer.servable.policy import LoadedVersion

OUTPUTS = (features.Q_VALUES, features.ACTION, features.BEST_TRIAGE, features.FORCED)
"""Outputs of every file."""
OPTIONAL_OUTPUTS = (
    features.P_APPROPRIATE, features.P_SAFE, features.RULES_FIRED, features.MODEL_ACTION, features.MODEL_BEST_TRIAGE,
    features.NOVELTY, features.IS_NOVEL,
)  # fmt: skip
"""Further outputs of a file whose model has probabilities, rules or novelty."""


class LiteRtModel:
    """The signature `state` of a TFLite file.

    Args:
        content: the whole file.
        threads: that the interpreter uses.

    Raises:
        InputError: `content` is no TFLite file with that signature.
    """

    def __init__(self, content: bytes, threads: int = 1):
        try:
            self._interpreter = Interpreter(model_content=content, num_threads=threads)
            self._runner = self._interpreter.get_signature_runner(features.STATE)
            self._asker = None
            if features.QUESTIONS in self._interpreter.get_signature_list():
                self._asker = self._interpreter.get_signature_runner(features.QUESTIONS)
        except (ValueError, RuntimeError) as error:
            raise InputError(f"LiteRT cannot run the file: {first_line(error)}: convert it again") from error

    @property
    def tensors(self) -> dict[str, dict[str, dict[str, Any]]]:
        """`inputs` and `outputs`: dtype (NumPy's name) and shape of each tensor by its name."""
        sides = {"inputs": self._runner.get_input_details(), "outputs": self._runner.get_output_details()}
        return {
            side: {
                name: {"dtype": np.dtype(detail["dtype"]).name, "shape": detail["shape"].tolist()}
                for name, detail in sorted(details.items())
            }
            for side, details in sides.items()
        }

    def run(self, state: np.ndarray, questions_asked: int) -> Mapping[str, np.ndarray]:
        """Returns the outputs, `[1, ...]` each, for one state float32 `[1, E]`."""
        return self._runner(**{features.STATES: state, features.QUESTIONS_ASKED: np.array([questions_asked], np.int32)})

    @property
    def asks(self) -> bool:
        """Whether the file has the signature `questions`."""
        return self._asker is not None

    def ask(self, state: np.ndarray, not_to_ask: np.ndarray) -> Mapping[str, np.ndarray]:
        """Returns the best questions `[1, Q]` in a state float32 `[1, E]`, without `not_to_ask`, bool `[1, E]`.

        Raises:
            ValueError: the file has no such signature.
        """
        if self._asker is None:
            raise ValueError(f"the file has no signature {features.QUESTIONS!r}")
        return self._asker(**{features.STATES: state, features.NOT_TO_ASK: not_to_ask})

    def answer(self, states: np.ndarray, questions_asked: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the outputs, `[B, ...]` each, for states float32 `[B, E]` and questions asked int32 `[B]`, B >= 1."""
        rows = [self.run(state, count) for state, count in zip(states[:, np.newaxis], questions_asked, strict=True)]
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def litert_version() -> str:
    """Returns the version of the interpreter."""
    return importlib.metadata.version("ai-edge-litert")


def as_version(model: LiteRtModel, version: LoadedVersion) -> LoadedVersion:
    """Returns `version` with `model` in place of its SavedModel, for `trainer.servable.policy.play`."""
    return dataclasses.replace(version, model=_Playable(model))


class _Playable:
    """Stands in for a loaded SavedModel: has the signature that a policy calls, also inside a graph."""

    def __init__(self, model: LiteRtModel):
        self._model = model
        self.signatures = {features.STATE: self}
        self.variables = ()
        there = model.tensors["outputs"]
        self._widths = {
            name: width
            for name, width in ((features.Q_VALUES, NUM_ACTIONS), (features.P_APPROPRIATE, NUM_DECISIONS),
                                (features.P_SAFE, NUM_DECISIONS))
            if name in there
        }  # fmt: skip
        self.structured_outputs = there

    def __call__(self, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        def answer(states: np.ndarray, questions_asked: np.ndarray) -> list[np.ndarray]:
            if not len(states):  # a step of an evaluation in which every question was in vain: no state is new
                return [np.zeros([0], np.int32), *(np.zeros([0, width], np.float32) for width in self._widths.values())]
            outputs = self._model.answer(states, questions_asked)
            return [outputs[name] for name in (features.ACTION, *self._widths)]

        given = [inputs[features.STATES], inputs[features.QUESTIONS_ASKED]]
        action, *values = tf.numpy_function(answer, given, [tf.int32, *(tf.float32 for _ in self._widths)])
        rows = given[0].shape[0]
        shaped = zip(self._widths.items(), values, strict=True)
        return {
            features.ACTION: tf.ensure_shape(action, [rows]),
            **{name: tf.ensure_shape(value, [rows, width]) for (name, width), value in shaped},
        }

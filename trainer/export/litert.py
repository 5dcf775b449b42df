"""Runs a TFLite file with the LiteRT interpreter, one state at a time, as a phone does."""

import dataclasses
import importlib.metadata
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from schemas import features
from schemas.answer import ANSWER, Kind
from trainer.export.policy import LoadedVersion
from triage_runtime.litert import LiteRtModel


def run_each(
    model: LiteRtModel,
    states: np.ndarray,
    questions_asked: np.ndarray,
    track: Callable[[list[Any]], Iterable[Any]] = iter,
) -> dict[str, np.ndarray]:
    """Returns the outputs, `[B, ...]` each, for states float32 `[B, E]` and questions asked int32 `[B]`, B >= 1.

    Args:
        model: to run.
        states: one for each call.
        questions_asked: for each of them.
        track: passes the calls on, to show progress.

    Raises:
        InputError: LiteRT failed.
    """
    calls = list(zip(states[:, np.newaxis], questions_asked[:, np.newaxis], strict=True))
    rows = [model.run(*one) for one in track(calls)]
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def litert_version() -> str:
    """Returns the version of the interpreter."""
    return importlib.metadata.version("ai-edge-litert")


def as_version(model: LiteRtModel, version: LoadedVersion) -> LoadedVersion:
    """Returns `version` with `model` in place of its SavedModel, for `trainer.export.policy.play`."""
    return dataclasses.replace(version, model=_Playable(model))


class _Playable:
    """Stands in for a loaded SavedModel: has the signature that a policy calls, also inside a graph."""

    def __init__(self, model: LiteRtModel):
        self._model = model
        self.signatures = {features.STATE: self}
        self.variables = ()
        there = model.tensors["outputs"]
        values = [tensor.name for tensor in ANSWER if tensor.kind is Kind.VALUES and tensor.name in there]
        self._widths = {name: there[name]["shape"][1] for name in values}
        self.structured_outputs = there

    def __call__(self, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        def answer(states: np.ndarray, questions_asked: np.ndarray) -> list[np.ndarray]:
            if not len(states):  # a step of an evaluation in which every question was in vain: no state is new
                return [np.zeros([0], np.int32), *(np.zeros([0, width], np.float32) for width in self._widths.values())]
            outputs = run_each(self._model, states, questions_asked)
            return [outputs[name] for name in (features.ACTION, *self._widths)]

        given = [inputs[features.STATES], inputs[features.QUESTIONS_ASKED]]
        action, *values = tf.numpy_function(answer, given, [tf.int32, *(tf.float32 for _ in self._widths)])
        rows = given[0].shape[0]
        shaped = zip(self._widths.items(), values, strict=True)
        return {
            features.ACTION: tf.ensure_shape(action, [rows]),
            **{name: tf.ensure_shape(value, [rows, width]) for (name, width), value in shaped},
        }

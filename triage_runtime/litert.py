"""Runs the signatures of a TFLite file with LiteRT."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from schemas import features
from schemas.errors import InputError, first_line
from triage_runtime.command_line.standard_error import standard_error_without

XNNPACK = b"Created TensorFlow Lite XNNPACK delegate"
"""In a line that TFLite and LiteRT write to standard error with the first interpreter of a process."""


class LiteRtModel:
    """The signatures of a TFLite file, such as that of a version, run by LiteRT; one call at a time.

    Raises:
        InputError: LiteRT is not installed, or `content` is not a TFLite file with the signature `state`.
    """

    def __init__(self, content: bytes):
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as error:
            raise InputError("LiteRT is not installed: pip install ai-edge-litert") from error
        self._content = content  # the interpreter reads from it without keeping it alive
        try:
            with standard_error_without(XNNPACK):
                self._interpreter = Interpreter(model_content=content, num_threads=1)
                self._interpreter.allocate_tensors()
            self._runner = self._interpreter.get_signature_runner(features.STATE)
            asks = features.QUESTIONS in self._interpreter.get_signature_list()
            self._asker = self._interpreter.get_signature_runner(features.QUESTIONS) if asks else None
        except (ValueError, RuntimeError) as error:
            raise InputError(f"LiteRT cannot run the file: {first_line(error)}") from error

    @property
    def tensors(self) -> dict[str, dict[str, dict[str, Any]]]:
        """`inputs` and `outputs` of `state`: dtype (NumPy's name) and shape of each tensor by its name."""
        return _tensors(self._runner)

    @property
    def question_tensors(self) -> dict[str, dict[str, dict[str, Any]]] | None:
        """The same of `questions`, None if the file has no such signature."""
        return None if self._asker is None else _tensors(self._asker)

    def run(self, states: np.ndarray, questions_asked: np.ndarray) -> Mapping[str, np.ndarray]:
        """Returns the outputs, `[B, ...]` each, for states float32 `[B, E]` and questions asked int32 `[B]`, B >= 1.

        A file may allow only B = 1.

        Raises:
            InputError: LiteRT failed; the model must not be used again.
        """
        return _run(self._runner, {features.STATES: states, features.QUESTIONS_ASKED: questions_asked})

    @property
    def asks(self) -> bool:
        """Whether the file has the signature `questions`."""
        return self._asker is not None

    def ask(self, states: np.ndarray, not_to_ask: np.ndarray) -> Mapping[str, np.ndarray]:
        """Returns the best questions `[B, Q]` in states float32 `[B, E]`, without `not_to_ask`, bool `[B, E]`.

        Raises:
            ValueError: the file has no such signature.
            InputError: LiteRT failed; the model must not be used again.
        """
        if self._asker is None:
            raise ValueError(f"the file has no signature {features.QUESTIONS!r}")
        return _run(self._asker, {features.STATES: states, features.NOT_TO_ASK: not_to_ask})


def _run(runner: Any, inputs: dict[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    try:
        outputs: Mapping[str, np.ndarray] = runner(**inputs)
    except (ValueError, RuntimeError) as error:
        raise InputError(f"LiteRT cannot run the file: {first_line(error)}") from error
    return outputs


def _tensors(runner: Any) -> dict[str, dict[str, dict[str, Any]]]:
    sides = {"inputs": runner.get_input_details(), "outputs": runner.get_output_details()}
    return {
        side: {
            name: {"dtype": np.dtype(detail["dtype"]).name, "shape": detail["shape"].tolist()}
            for name, detail in sorted(details.items())
        }
        for side, details in sides.items()
    }

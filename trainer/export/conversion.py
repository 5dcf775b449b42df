"""Converts the signature `state` of an exported version to a TFLite file, quantised or not."""

import pathlib
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from schemas import directories, features
from schemas.answer import ANSWER, Kind
from schemas.errors import InputError, first_line
from schemas.evidence import Vocabulary
from schemas.parity import random_states
from schemas.relations import EXHAUSTIVE
from schemas.triage import NO_QUESTIONS_LEFT, next_step
from trainer.data import state
from trainer.data.tfrecord import DataDirectory
from trainer.export.policy import LoadedVersion
from triage_runtime.command_line.standard_error import standard_error_without
from triage_runtime.litert import XNNPACK

NONE, FLOAT16, DYNAMIC, INT8 = "none", "float16", "dynamic", "int8"
QUANTIZATIONS = (NONE, FLOAT16, DYNAMIC, INT8)
"""Weights in float32; in float16; in int8 with float activations; weights and activations in int8."""

_QUANTISER = b"fully_quantize: "  # in a line of TensorFlow's converter about its settings
CALIBRATION_SPLIT = "train"
CALIBRATION_STATES = 1000

STEPS = ("ask", "decide", "hand_over")
"""What may come next in an interview, in the order of the output `next`."""

_SELU_OPS = ("EXP", "SUB", "MUL", "SELECT", "SELECT_V2", "GREATER")
"""TFLite composes SELU of these. The exponential is also taken of positive inputs, where it is not used: its range
there would leave too few of the 256 steps of int8 for negative inputs. In int8 these operations made most of the error,
and did not make the file smaller."""
_MIXTURE_OPS = (
    "BATCH_MATMUL", "CONCATENATION", "RELU", "ADD", "SUM", "LOG", "REDUCE_MAX", "GATHER", "CAST", "MEAN", "LESS",
    "STRIDED_SLICE", "RESHAPE", "EQUAL", "SOFTMAX", "DIV", "MINIMUM", "MAXIMUM", "NEG",
    "PAD",
)  # fmt: skip
"""Eight bits are too few for the small probabilities of classes of patients, and for novelty, which compares sums of
logarithms with percentiles that are close together."""
_DECIDING_OPS = ("LOGISTIC", "GREATER_EQUAL")
"""Values would be compared with the highest one when both are rounded, each by its own scale."""


def convert(
    version: LoadedVersion,
    quantization: str,
    calibration: np.ndarray | None = None,
    batch: int | None = 1,
) -> bytes:
    """Returns the TFLite file of a version, without metadata.

    Its signature `state` takes `states` float32 `[B, E]` and `questions_asked` int32 `[B]`, and returns the
    version's tensors of `schemas.answer` but for labels. Their types do not depend on the quantisation. The file has
    the signature `questions` too, for one state, if the version has it; not in int8, which calibrates one signature
    alone. In a file for phones both say what is `next`, and `questions` is a whole turn of an interview.

    Args:
        version: the version to convert.
        quantization: one of `QUANTIZATIONS`.
        calibration: states float32 `[N, E]`, which give int8 the ranges of activations; only int8 needs them.
        batch: B of `state`: 1 in a file for phones, None for any number of states.

    Raises:
        InputError: TensorFlow cannot convert the version.
    """
    count = len(version.vocabulary)
    signatures = {features.STATE: _function(version.signature, batch, count)}
    if quantization != INT8 and features.QUESTIONS in version.model.signatures:
        asking = version.model.signatures[features.QUESTIONS]
        signatures[features.QUESTIONS] = (
            _turn(asking, signatures[features.STATE], version.vocabulary) if batch else _questions(asking, count)
        )
    # TFLite has no lookup tables, which the version contains. A SavedModel of these signatures and weights has none.
    module = tf.Module()
    module.weights = list(version.signature.variables)
    quiet = standard_error_without(_QUANTISER, XNNPACK)
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings(), quiet:
        warnings.simplefilter("ignore")  # calibration uses TensorFlow's own interpreter, which is deprecated
        try:
            tf.saved_model.save(module, scratch, signatures=signatures)
            converter = tf.lite.TFLiteConverter.from_saved_model(scratch, signature_keys=list(signatures))
            return _quantized(converter, quantization, calibration)
        except (ValueError, RuntimeError, tf.errors.OpError) as error:
            raise InputError(f"{version.folder}: cannot convert it to TFLite: {first_line(error)}") from error


def calibration_states(path: pathlib.Path, version: LoadedVersion, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Returns states with which to calibrate int8: as many parts of training vignettes as random moments of interviews.

    Activations of the latter are larger, as vignettes list less than an interview asks; int8 would cut them off. States
    are float32 `[CALIBRATION_STATES, E]`, drawn from `seed`. Their origin comes with them, to describe a file.

    Raises:
        InputError: it is not a data directory, has another vocabulary, or has no training vignettes.
    """
    data = DataDirectory.open(path)
    data.require_vocabulary(version.vocabulary, version.folder / directories.ASSETS / directories.VOCABULARY)
    vignettes = data.read(CALIBRATION_SPLIT, needed=True)
    counts = np.diff(vignettes.offsets)
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, len(counts), CALIBRATION_STATES // 2)
    signed_codes: np.ndarray = np.zeros([len(drawn), counts.max()], np.int32)
    for row, vignette in zip(signed_codes, drawn, strict=True):
        codes = generator.permutation(vignettes.signed_codes[slice(*vignettes.offsets[vignette : vignette + 2])])
        known_codes = codes[: generator.integers(1, len(codes) + 1)]
        row[: len(known_codes)] = known_codes
    origin = {"data_fingerprint": data.data_fingerprint, "split": CALIBRATION_SPLIT, "states": CALIBRATION_STATES}
    parts = state.from_signed_codes(tf.constant(signed_codes), len(data.vocabulary)).numpy()
    moments, _ = random_states(len(data.vocabulary), version.max_questions, len(parts), int(generator.integers(2**31)))
    return np.concatenate([parts, moments]), origin


def _function(
    signature: tf.types.experimental.Callable, batch: int | None, evidence_count: int
) -> tf.types.experimental.Callable:
    """Returns a signature without the labels, as not every interpreter has strings."""
    specs = [
        tf.TensorSpec([batch, evidence_count], tf.float32, features.STATES),
        tf.TensorSpec([batch], tf.int32, features.QUESTIONS_ASKED),
    ]

    @tf.function(input_signature=specs, autograph=False)
    def decide(states: tf.Tensor, questions_asked: tf.Tensor) -> dict[str, tf.Tensor]:
        answer = signature(**{features.STATES: states, features.QUESTIONS_ASKED: questions_asked})
        names = [tensor.name for tensor in ANSWER if tensor.kind is not Kind.LABEL]
        answer = {name: answer[name] for name in names if name in answer}
        return answer | {features.NEXT: _next(answer)} if batch else answer

    return decide.get_concrete_function()


def _questions(signature: tf.types.experimental.Callable, evidence_count: int) -> tf.types.experimental.Callable:
    """Returns the signature `questions`, for one state."""
    specs = [
        tf.TensorSpec([1, evidence_count], tf.float32, features.STATES),
        tf.TensorSpec([1, evidence_count], tf.bool, features.NOT_TO_ASK),
    ]

    @tf.function(input_signature=specs, autograph=False)
    def ask(states: tf.Tensor, not_to_ask: tf.Tensor) -> dict[str, tf.Tensor]:
        answer: dict[str, tf.Tensor] = signature(**{features.STATES: states, features.NOT_TO_ASK: not_to_ask})
        return answer

    return ask.get_concrete_function()


def _turn(
    asking: tf.types.experimental.Callable, deciding: tf.types.experimental.Callable, vocabulary: Vocabulary
) -> tf.types.experimental.Callable:
    """Returns the signature `questions` of a file for phones: the outputs of `state`, too, and what is `next`.

    Where no question is worth asking, the answer is that at the end of an interview.
    """
    cells = np.arange(len(vocabulary))
    groups = np.stack([np.isin(cells, vocabulary.openings.get(name, ())) for name in EXHAUSTIVE])  # [G, E]
    specs = [
        tf.TensorSpec([1, len(vocabulary)], tf.float32, features.STATES),
        tf.TensorSpec([1], tf.int32, features.QUESTIONS_ASKED),
        tf.TensorSpec([1, len(vocabulary)], tf.bool, features.NOT_TO_ASK),
    ]

    @tf.function(input_signature=specs, autograph=False)
    def turn(states: tf.Tensor, questions_asked: tf.Tensor, not_to_ask: tf.Tensor) -> dict[str, tf.Tensor]:
        questions = asking(**{features.STATES: states, features.NOT_TO_ASK: not_to_ask})
        first, is_red_flag, worth_asking = (
            questions[name][:, 0]
            for name in (features.QUESTION_CODES, features.QUESTION_RED_FLAGS, features.QUESTION_WORTH_ASKING)
        )
        untouched = ~tf.reduce_any(groups & ((states != 0) | not_to_ask), axis=1, keepdims=True)  # [G, 1]
        opens = tf.reduce_any(tf.gather(groups, tf.maximum(first, 0), axis=1) & untouched, axis=0)  # [1]
        asked = tf.where(worth_asking, questions_asked, NO_QUESTIONS_LEFT)
        answer = deciding(**{features.STATES: states, features.QUESTIONS_ASKED: asked})
        return questions | answer | {features.NEXT: _next(answer, worth_asking, worth_asking & (opens | is_red_flag))}

    return turn.get_concrete_function()


def _next(answer: dict[str, tf.Tensor], worth_asking: Any = True, must_ask: Any = False) -> tf.Tensor:
    """Returns the place in `STEPS` of what is next, int32 `[B]`, see `next_step`."""
    contradictory, is_novel, unsure = (answer[features.DEFERRED] == number for number in (1, 2, 3))
    step = next_step(
        answer[features.ACTION],
        answer[features.BEST_TRIAGE],
        answer[features.FORCED],
        contradictory,
        is_novel,
        unsure,
        worth_asking=worth_asking,
        must_ask=must_ask,
    )
    ended = tf.where(step.hand_over, STEPS.index("hand_over"), STEPS.index("decide"))
    return tf.where(step.ask, STEPS.index("ask"), ended)


def _quantized(converter: tf.lite.TFLiteConverter, quantization: str, calibration: np.ndarray | None) -> bytes:
    if quantization != NONE:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantization == FLOAT16:
        converter.target_spec.supported_types = [tf.float16]
    if quantization != INT8:
        return converter.convert()
    if calibration is None:
        raise ValueError("int8 needs states to calibrate with")
    converter.representative_dataset = lambda: _samples(calibration)
    selective = tf.lite.experimental.QuantizationDebugger(  # the only way to keep operations in float
        converter=converter,
        debug_dataset=converter.representative_dataset,
        debug_options=tf.lite.experimental.QuantizationDebugOptions(
            denylisted_ops=[*_SELU_OPS, *_MIXTURE_OPS, *_DECIDING_OPS]
        ),
    )
    return selective.get_nondebug_quantized_model()


def _samples(states: np.ndarray) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    asked: np.ndarray = np.zeros([1], np.int32)
    for row in states[:, np.newaxis]:
        yield features.STATE, {features.STATES: row, features.QUESTIONS_ASKED: asked}

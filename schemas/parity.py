"""Whether two engines of one model give the same answers: random states to compare them on, and tolerances."""

import itertools
from collections.abc import Callable, Mapping

import numpy as np

from schemas import features
from schemas.answer import ANSWER, Q_BOUND, AnswerTensor, Kind
from schemas.model_directory import ModelInfo
from schemas.triage import Action

_SIZES = (1, 2, 3, 5, 8, 13, 64)
_NUMBERS = (Kind.NUMBER, Kind.VALUES)

Run = Callable[[np.ndarray, np.ndarray], Mapping[str, np.ndarray]]
"""From states float32 `[B, E]` and questions asked int32 `[B]` to the outputs of the signature `state`."""


def random_states(evidence_count: int, max_questions: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns random moments of interviews.

    The number of questions is uniform from 0 to `max_questions`, at which triage is forced. Each question reveals at
    most one piece of evidence, and the first piece is known from the start, so q questions go with 1 to q + 1 known
    pieces: 7 on average at the paper's 23 questions, as in its vignettes. The pieces and whether each is present or
    absent are uniform.

    Returns:
        States float32 `[count, E]` in {-1, 0, 1}, and questions asked int32 `[count]`.
    """
    generator = np.random.default_rng(seed)
    questions_asked = generator.integers(0, max_questions + 1, count).astype(np.int32)
    states: np.ndarray = np.zeros([count, evidence_count], np.float32)
    for row, questions in zip(states, questions_asked, strict=True):
        known = generator.integers(1, min(questions + 1, evidence_count) + 1)
        row[generator.choice(evidence_count, known, replace=False)] = generator.choice([-1, 1], known)
    return states, questions_asked


def probes(evidence_count: int, max_questions: int, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns states and questions asked, as `random_states`, that exercise every part of a model.

    The first state is empty. Every other one has a third of all evidence present and a third absent, so that rules on
    several codes fire.
    """
    states, questions_asked = random_states(evidence_count, max_questions, count, seed)
    dense = states[1::2]
    dense[:] = np.random.default_rng([seed, 1]).integers(-1, 2, dense.shape)
    states[0] = 0
    return states, questions_asked


def compare(engine: Run, reference: Run, info: ModelInfo) -> str | None:
    """Returns the first difference of an engine from another one that rounding cannot explain, or None.

    Args:
        engine: gets batches of several sizes, as the computation depends on the size.
        reference: gets the same states at once.
        info: the model, for its size and for how it decides.
    """
    states, questions_asked = probes(info.evidence_count, info.max_questions, sum(_SIZES))
    ends = list(itertools.accumulate(_SIZES))
    parts = [
        engine(states[end - size : end], questions_asked[end - size : end])
        for size, end in zip(_SIZES, ends, strict=True)
    ]
    outputs = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return difference(outputs, reference(states, questions_asked), info)


def difference(actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], info: ModelInfo) -> str | None:
    """Returns the first difference between outputs of the signature `state` that rounding cannot explain, or None."""
    tensors = [tensor for tensor in ANSWER if tensor.name in expected and tensor.kind is not Kind.LABEL]
    missing = sorted({tensor.name for tensor in tensors} - actual.keys())
    if missing:
        return f"it lacks {', '.join(missing)}"
    for tensor in sorted(tensors, key=lambda tensor: tensor.kind not in _NUMBERS):  # they say most of what is wrong
        fault = _fault(tensor, actual, expected, info)
        if fault:
            return fault
    return None


def _fault(
    tensor: AnswerTensor, actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], info: ModelInfo
) -> str | None:
    ours, theirs = actual[tensor.name], expected[tensor.name]
    if tensor.kind in _NUMBERS:
        apart = np.abs(ours - theirs)
        # Not `> bound`, so that NaN is a difference.
        within = (apart <= tensor.bound).all()
        return None if within else f"{tensor.name} by up to {apart.max():.2g}, more than {tensor.bound:g}"
    if tensor.kind is Kind.ACTION:
        counts = decided_clearly(expected)
    elif tensor.kind is Kind.REASON:
        counts = _deferred_clearly(actual, expected, info)
    elif tensor.threshold_of:
        counts = actual[tensor.threshold_of] == expected[tensor.threshold_of]
    else:
        counts = np.ones(len(theirs), bool)
    return None if np.array_equal(ours[counts], theirs[counts]) else tensor.name


def _deferred_clearly(
    actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], info: ModelInfo
) -> np.ndarray:
    """Returns, bool `[B]`, the rows in which rounding cannot change whether the case is handed over."""
    clear = decided_clearly(expected)
    if features.NOVELTY in expected:
        clear &= actual[features.NOVELTY] == expected[features.NOVELTY]
    if info.probabilities and info.hand_over_from is not None:
        clear &= np.abs(expected[features.P_APPROPRIATE][:, Action.RED] - info.hand_over_from) > Q_BOUND
    return clear


def decided_clearly(outputs: Mapping[str, np.ndarray], bound: float = Q_BOUND) -> np.ndarray:
    """Returns, bool `[B]`, the rows of outputs whose decision cannot change by differences within `bound`."""
    q_values = outputs[features.Q_VALUES]
    best = np.sort(q_values[:, : Action.ASK], axis=1)
    asking = np.abs(best[:, -1] - q_values[:, Action.ASK])
    clear: np.ndarray = np.minimum(asking, best[:, -1] - best[:, -2]) > 2 * bound
    return clear

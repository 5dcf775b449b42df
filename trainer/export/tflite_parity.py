"""Compares a TFLite file with the SavedModel that it was made from, on random states."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from schemas import features
from schemas.answer import NOVELTY_BOUND, Q_BOUND
from schemas.errors import InputError
from schemas.parity import random_states
from trainer.export.conversion import DYNAMIC, FLOAT16, INT8, NONE
from trainer.export.policy import LoadedVersion
from triage_runtime.command_line.progress import followed
from triage_runtime.litert import LiteRtModel

BOUNDS = {NONE: Q_BOUND, FLOAT16: 0.01, DYNAMIC: 0.1, INT8: 0.1}
"""By quantisation: a file with a larger difference of a Q-value from the SavedModel's is considered broken.

The difference of a file that lost its weights is far larger. To be within a bound does not prove quality: for that, see
the shares.
"""

_BATCH = 1000


class Parity(NamedTuple):
    """How much a file's answers differ from the SavedModel's; shares of the states are in [0, 1]."""

    states: int
    seed: int
    bound: float  # on the difference of a Q-value
    largest_q_difference: float
    mean_q_difference: float
    decision_changed: float  # share with another action
    best_triage_changed: float
    best_triage_less_urgent: float
    largest_novelty_difference: float | None = None  # None if the model does not estimate novelty
    is_novel_changed: float | None = None
    deferred_changed: float | None = None  # share whose `deferred` differs; None if the version lacks it


def compare(version: LoadedVersion, model: LiteRtModel, bound: float, count: int, seed: int) -> Parity:
    """Returns how much `model` differs from `version` on `count` random states.

    Raises:
        InputError: a Q-value is not finite, or differs by more than `bound`; a novelty differs by more than
            `NOVELTY_BOUND`; or the question limit or the rules that fire are not the same.
    """
    states, questions_asked = random_states(len(version.vocabulary), version.max_questions, count, seed)
    expected = _saved_model_answers(version, states, questions_asked)
    actual = run_each(model, states, questions_asked, lambda calls: followed(calls, "compare", "states"))
    if not np.isfinite(actual[features.Q_VALUES]).all():
        raise InputError("the TFLite file answers with Q-values that are not finite: its weights were lost")
    differences = np.abs(actual[features.Q_VALUES] - expected[features.Q_VALUES])
    if differences.max() > bound:
        raise InputError(
            f"the TFLite file's Q-values differ by up to {differences.max():.2g} from the SavedModel's, more than the "
            f"bound of {bound:g}: it is broken, or this quantisation does not suit the network: try another one"
        )
    if (actual[features.FORCED] != expected[features.FORCED]).any():
        raise InputError("the TFLite file does not triage at the SavedModel's max_questions: export the version again")
    if features.RULES_FIRED in expected and (actual[features.RULES_FIRED] != expected[features.RULES_FIRED]).any():
        raise InputError("the TFLite file fires other safety rules than the SavedModel: it is broken; do not use it")
    shifts = actual[features.BEST_TRIAGE] - expected[features.BEST_TRIAGE]  # above 0: less urgent
    return Parity(
        states=count,
        seed=seed,
        bound=bound,
        largest_q_difference=float(differences.max()),
        mean_q_difference=float(differences.mean()),
        decision_changed=float((actual[features.ACTION] != expected[features.ACTION]).mean()),
        best_triage_changed=float((shifts != 0).mean()),
        best_triage_less_urgent=float((shifts > 0).mean()),
        deferred_changed=float((actual[features.DEFERRED] != expected[features.DEFERRED]).mean())
        if features.DEFERRED in expected
        else None,
        **_novelty_differences(actual, expected),
    )


def _novelty_differences(actual: dict[str, Any], expected: dict[str, Any]) -> dict[str, float]:
    if features.NOVELTY not in expected:
        return {}
    largest = float(np.abs(actual[features.NOVELTY] - expected[features.NOVELTY]).max())
    if not largest <= NOVELTY_BOUND:
        raise InputError(
            f"the TFLite file's novelty differs by up to {largest:.2g} from the SavedModel's, more than the bound of "
            f"{NOVELTY_BOUND:g}: train and export with this version of the package, or try another quantisation"
        )
    return {
        "largest_novelty_difference": largest,
        "is_novel_changed": float((actual[features.IS_NOVEL] != expected[features.IS_NOVEL]).mean()),
    }


def statement(parity: Parity) -> str:
    """Returns one sentence that helps to decide whether to ship the file."""
    if not parity.decision_changed and not parity.best_triage_changed and not parity.deferred_changed:
        return f"In none of {parity.states:,} random states does a decision differ from the SavedModel's."
    shares = (parity.decision_changed, parity.best_triage_changed, parity.best_triage_less_urgent)
    changed, other, lower, deferred = (
        f"{round(share * parity.states):,}" for share in (*shares, parity.deferred_changed or 0.0)
    )
    return (
        f"WARNING: {changed} of {parity.states:,} random states get another decision than the SavedModel's; the best "
        f"triage decision differs in {other}, and is less urgent in {lower}; {deferred} are handed over otherwise."
    )


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


def _saved_model_answers(version: LoadedVersion, states: np.ndarray, questions_asked: np.ndarray) -> dict[str, Any]:
    parts = []
    for start in range(0, len(states), _BATCH):
        rows = slice(start, start + _BATCH)
        parts.append(version.decide(states[rows], questions_asked[rows]))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

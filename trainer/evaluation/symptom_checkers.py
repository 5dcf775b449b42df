"""An agent in the terms in which symptom checkers are compared: one right level for each case, and the level advised.

The definitions are those of the R package symptomcheckR, after Kopka et al., "How suitable are clinical vignettes for
the evaluation of symptom checker apps? A test theoretical perspective", Digital Health 9, 2023. The right level of a
case is that which most clinicians gave, the most urgent one of equally frequent ones. A clinician is judged by the
others, and an agent takes the place of each clinician in turn.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from schemas.triage import DECISION_LABELS, NUM_DECISIONS, TRIAGE_DECISIONS
from trainer.evaluation.agreement import majority_decisions
from trainer.evaluation.metrics import estimates_of_sums

MEASURES = (
    "accuracy",
    "within_one_level",
    "safety_of_advice",
    "inclination_to_overtriage",
    "capability_comparison_score",
)
"""Of each symptom checker, beside its accuracy by level. The score lies from 0 to 100, 50 is as good as the others."""
_RIGHT, _ADVISED = np.indices([NUM_DECISIONS, NUM_DECISIONS])


class Compared(NamedTuple):
    """Symptom checkers that are compared on the same V vignettes."""

    names: tuple[str, ...]
    advice: np.ndarray  # float [V, S, 4, 4]: shares of each right level (rows) and level advised; each sums to 1


def compared(
    decisions: Mapping[str, np.ndarray], decision_counts: np.ndarray, minimum_decisions: int, clinicians: str
) -> Compared:
    """Returns agents beside the clinicians, on vignettes with enough decisions.

    If there are none, the agents are compared on all vignettes, by all clinicians, and the clinicians are left out.

    Args:
        decisions: int `[K, V]` of each agent by its name, in K evidence orders.
        decision_counts: `[V, 4]`.
        minimum_decisions: at least 2.
        clinicians: their name.
    """
    enough = decision_counts.sum(axis=1) >= minimum_decisions
    if not enough.any():
        right = _one_hot(majority_decisions(decision_counts))
        return Compared(tuple(decisions), np.stack([_advice(right, each) for each in decisions.values()], axis=1))
    counts = decision_counts[enough].astype(np.int64)
    right, own = _without_one(counts)
    advice = [_advice(right, each[:, enough]) for each in decisions.values()]
    return Compared((*decisions, clinicians), np.stack([*advice, own], axis=1))


def figures(those: Compared, seed: int) -> dict[str, Any]:
    """Returns the figures of each symptom checker, as estimates over vignettes.

    Args:
        those: one or more.
        seed: of the bootstrap.

    Returns:
        `checkers` by name: `MEASURES` (a ratio without cases is None, and so is the score of a single checker) and
        `accuracy_by_level`; `item_difficulty`, the mean share of the checkers that are right about a case; the number
        of `vignettes`. Every agent gives advice on every case: comprehensiveness is 1.
    """
    count = len(those.names)
    levels = those.advice[:, 0].sum(axis=2)  # [V, 4], of the right levels; the same for all
    by_level = np.count_nonzero(levels, axis=0).tolist()
    wrong = those.advice[..., _RIGHT != _ADVISED].sum(axis=2)  # [V, S]
    vignettes = len(those.advice)
    resting_on = [
        rested
        for column in range(count)
        for rested in (*[vignettes] * 3, int(np.count_nonzero(wrong[:, column])), vignettes, *by_level)
    ]
    estimates = estimates_of_sums(those.advice, _statistics, [*resting_on, vignettes], seed)
    width = len(MEASURES) + NUM_DECISIONS
    return {
        "vignettes": vignettes,
        "checkers": {
            name: {
                **dict(zip(MEASURES, (own := estimates[place * width :][:width]), strict=False)),
                "comprehensiveness": 1.0,
                "accuracy_by_level": dict(zip(DECISION_LABELS, own[len(MEASURES) :], strict=True)),
            }
            for place, name in enumerate(those.names)
        },
        "item_difficulty": estimates[-1],
    }


def _statistics(sums: np.ndarray) -> np.ndarray:
    """Returns the figures `[R, S (5 + 4) + 1]` of sums of advice `[R, S, 4, 4]`."""
    resamples, count = sums.shape[:2]
    total = sums.sum(axis=(2, 3))  # [R, S]

    def share(cells: np.ndarray, of: np.ndarray | None = None) -> np.ndarray:
        whole = total if of is None else sums[..., of].sum(axis=2)
        part = sums[..., cells].sum(axis=2)
        return np.divide(part, whole, out=np.full_like(total, np.nan), where=whole > 0)

    accuracy = share(_RIGHT == _ADVISED)
    difficulty = accuracy.mean(axis=1, keepdims=True)
    # A right answer adds 1 minus the item's difficulty, a wrong one takes it away: on average the two differ by this.
    score = 50 * (1 + accuracy - difficulty) if count > 1 else np.full_like(accuracy, np.nan)
    own = (
        accuracy,
        share(np.abs(_RIGHT - _ADVISED) <= 1),
        share(_ADVISED <= _RIGHT),
        share(_ADVISED < _RIGHT, of=_ADVISED != _RIGHT),
        score,
        *(share((level == _RIGHT) & (level == _ADVISED), of=level == _RIGHT) for level in range(NUM_DECISIONS)),
    )
    return np.concatenate([np.stack(own, axis=2).reshape(resamples, -1), difficulty], axis=1)


def _without_one(decision_counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns shares `[V, 4]` of the right level by all but one clinician, and `[V, 4, 4]` with that one's decision."""
    own: np.ndarray = np.zeros([len(decision_counts), NUM_DECISIONS, NUM_DECISIONS])
    rows = np.arange(len(decision_counts))
    for given in TRIAGE_DECISIONS:
        others = decision_counts - np.eye(NUM_DECISIONS, dtype=np.int64)[given]
        share = decision_counts[:, given] / decision_counts.sum(axis=1)  # 0 where nobody gave it
        own[rows, majority_decisions(others), given] += share
    return own.sum(axis=2), own


def _advice(right: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    """Returns the advice `[V, 4, 4]` of decisions `[K, V]` where the shares of the right level are `[V, 4]`."""
    advised = _one_hot(decisions).mean(axis=0)
    return right[:, :, np.newaxis] * advised[:, np.newaxis, :]


def _one_hot(decisions: np.ndarray) -> np.ndarray:
    return np.eye(NUM_DECISIONS)[decisions]

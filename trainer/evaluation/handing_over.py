"""What is left of the risk if cases are handed over to a person: the frontier of both, by either rule.

A caller's `defer_below` hands over where the agent is unsure of its decision, and a promise where Red may be
appropriate though the decision is below it.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas.triage import Action
from trainer.decision import decision
from trainer.decision.operating_point import HAND_OVER_FROM
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation.agreement import majority_decisions
from trainer.evaluation.metrics import urgency_range

DEFER_BELOW = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""P(safe) of the decision below which a case is handed over."""


class HandedOver(NamedTuple):
    """A threshold of `DEFER_BELOW` or of `HAND_OVER_FROM`, with shares in [0, 1]; None without such cases."""

    defer_below: float | None
    hand_over_from: float | None  # P(Red is appropriate) from which a decision below Red is handed over
    handed_over: float  # of all episodes
    under_triage: float | None  # of the episodes that are left: less urgent than any clinician decided
    red_missed: float | None  # of those whom clinicians call Red: they leave below Red, and no person looks


def frontier(outcomes: Outcomes, decision_counts: np.ndarray) -> list[HandedOver]:
    """Returns the figures of each threshold, those of P(safe) first.

    Args:
        outcomes: K orders of V vignettes, of an agent with probabilities.
        decision_counts: `[V, 4]`.
    """
    outputs, probabilities = outcomes.outputs, outcomes.probabilities
    if outputs is None or probabilities is None:
        return []
    decisions = outcomes.decisions
    safe = np.take_along_axis(probabilities[:, :, 1], decisions[..., np.newaxis], axis=2)[..., 0]  # [K, V]
    flat = tf.constant(outputs.reshape(-1, outputs.shape[-1]))
    _, least = urgency_range(decision_counts)
    red = majority_decisions(decision_counts) == Action.RED

    def row(defer_below: float | None, hand_over_from: float | None, handed_over: np.ndarray) -> HandedOver:
        left = ~handed_over
        late, below = (decisions > least) & left, (decisions > Action.RED) & left
        return HandedOver(
            defer_below,
            hand_over_from,
            float(handed_over.mean()),
            float(late.sum() / left.sum()) if left.any() else None,
            float(below[:, red].mean()) if red.any() else None,
        )

    def may_be_red(least_red: float) -> np.ndarray:
        point = decision.OperatingPoint(hand_over_from=least_red)
        return decision.handed_over(flat, decisions.ravel(), point).numpy().reshape(decisions.shape)

    return [
        *(row(threshold, None, safe < threshold) for threshold in DEFER_BELOW),
        *(row(None, least_red, may_be_red(least_red)) for least_red in sorted(HAND_OVER_FROM, reverse=True)),
    ]

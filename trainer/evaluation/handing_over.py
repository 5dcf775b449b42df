"""What is left of the risk if cases of which the agent is unsure are handed over to a person: the frontier of both."""

from typing import NamedTuple

import numpy as np

from schemas.triage import Action
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation.agreement import majority_decisions
from trainer.evaluation.metrics import urgency_range

DEFER_BELOW = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""P(safe) of the decision below which a case is handed over."""


class HandedOver(NamedTuple):
    """A threshold of `DEFER_BELOW`, with shares in [0, 1]; None without such cases."""

    defer_below: float
    handed_over: float  # of all episodes
    under_triage: float | None  # of the episodes that are left: less urgent than any clinician decided
    red_missed: float | None  # of those whom clinicians call Red: they leave below Red, and no person looks


def frontier(outcomes: Outcomes, decision_counts: np.ndarray) -> list[HandedOver]:
    """Returns the figures of each threshold.

    Args:
        outcomes: K orders of V vignettes, of an agent with probabilities.
        decision_counts: `[V, 4]`.
    """
    probabilities = outcomes.probabilities
    if probabilities is None:
        return []
    safe = np.take_along_axis(probabilities[:, :, 1], outcomes.decisions[..., np.newaxis], axis=2)[..., 0]  # [K, V]
    _, least = urgency_range(decision_counts)
    red = majority_decisions(decision_counts) == Action.RED
    rows = []
    for threshold in DEFER_BELOW:
        left = safe >= threshold
        late, below = (outcomes.decisions > least) & left, (outcomes.decisions > Action.RED) & left
        rows.append(
            HandedOver(
                threshold,
                float(1 - left.mean()),
                float(late.sum() / left.sum()) if left.any() else None,
                float(below[:, red].mean()) if red.any() else None,
            )
        )
    return rows

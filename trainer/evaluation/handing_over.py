"""The effect of handing cases over to a person, at each threshold."""

from typing import NamedTuple

import numpy as np

from schemas.triage import Action, may_be_red
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import agreement
from trainer.evaluation.metrics import urgency_range
from trainer.graph.operating_point import HAND_OVER_FROM

DEFER_BELOW = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""P(safe) of the decision below which a case is handed over."""


class HandedOver(NamedTuple):
    """A threshold of `DEFER_BELOW` or of `HAND_OVER_FROM`, with shares in [0, 1]; None without such cases."""

    defer_below: float | None
    hand_over_from: float | None  # P(Red is appropriate) from which a decision below Red is handed over
    handed_over: float  # of all episodes
    under_triage: float | None  # of the episodes that are left: less urgent than any clinician decided
    red_missed: float | None  # of those whom clinicians call Red: they leave below Red, and no person looks


def figures(outcomes: Outcomes, decision_counts: np.ndarray) -> list[HandedOver]:
    """Returns the figures of each threshold, those of P(safe) first.

    Args:
        outcomes: K orders of V vignettes, of an agent with probabilities.
        decision_counts: `[V, 4]`.
    """
    decisions, heads = outcomes.decisions, outcomes.heads
    if "safe" not in heads:
        return []
    safe = np.take_along_axis(heads["safe"], decisions[..., np.newaxis], axis=2)[..., 0]  # [K, V]
    _, least = urgency_range(decision_counts)
    red = agreement.majority_decisions(decision_counts) == Action.RED

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

    p_red = heads["appropriate"][..., Action.RED]  # [K, V]
    return [
        *(row(threshold, None, safe < threshold) for threshold in DEFER_BELOW),
        *(row(None, likely, may_be_red(decisions, p_red, likely)) for likely in sorted(HAND_OVER_FROM, reverse=True)),
    ]

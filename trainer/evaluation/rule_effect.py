"""The effect of safety rules: an agent without and with them, on the same vignettes in the same evidence orders."""

from typing import Any, NamedTuple

import numpy as np

from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import metrics
from trainer.evaluation.agreement import agent_agreement

METRICS = ("appropriateness", "safety", "over_triage", "under_triage", "questions")
_RED = ("red_sensitivity", "red_specificity")


class Compared(NamedTuple):
    """One figure without and with rules."""

    without: metrics.Estimate | None
    with_rules: metrics.Estimate | None
    difference: metrics.Estimate | None  # with minus without, over pairs; None for a figure that is no mean


def rule_effect(without: Outcomes, with_rules: Outcomes, decision_counts: np.ndarray, seed: int) -> dict[str, Any]:
    """Returns what rules change.

    Args:
        without: K evidence orders of V vignettes, played without rules.
        with_rules: the same orders, played with them.
        decision_counts: `[V, 4]`, the clinicians' decisions.
        seed: of the bootstrap.

    Returns:
        `metrics`: a `Compared` by name; `changed`: share of the episodes that end with another decision.
    """
    before, after = (metrics.agent_metrics(outcomes, decision_counts) for outcomes in (without, with_rules))
    compared = {
        name: Compared(
            metrics.estimate(before[name], seed),
            metrics.estimate(after[name], seed),
            metrics.estimate(after[name] - before[name], seed),
        )
        for name in METRICS
    }
    rates = [agent_agreement(outcomes.decisions, decision_counts, seed) for outcomes in (without, with_rules)]
    compared |= {name: Compared(rates[0][name], rates[1][name], None) for name in _RED}
    return {"metrics": compared, "changed": float((without.decisions != with_rules.decisions).mean())}

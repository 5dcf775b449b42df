"""Agents beside the clinicians: judged in the same way, on the same vignettes, and in pairs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import agreement, as_clinicians, metrics
from trainer.importing.vignette_statistics import MINIMUM_DECISIONS

QUALITY = ("appropriateness", "safety")


def agent_figures(outcomes: Outcomes, decision_counts: np.ndarray, seed: int) -> dict[str, Any] | None:
    """Returns an agent's figures in the place of each clinician; None where no vignette has enough decisions.

    Args:
        outcomes: episodes of V vignettes.
        decision_counts: `[V, 4]`.
        seed: of the bootstrap.

    Returns:
        An estimate, ready for JSON, of `appropriateness`, `safety`, `over_triage`, `under_triage`, `red_sensitivity`,
        `red_specificity` and `weighted_kappa` by all clinicians but one, and of `forced` on the same vignettes.
    """
    judged = as_clinicians.figures(outcomes.decisions, decision_counts, MINIMUM_DECISIONS, seed)
    if judged is None:
        return None
    forced = outcomes.forced.mean(axis=0)[decision_counts.sum(axis=1) >= MINIMUM_DECISIONS]
    return _plain({**judged["by_all_but_one"], "forced": metrics.estimate(forced, seed)})


def clinician_figures(decision_counts: np.ndarray, seed: int) -> dict[str, Any] | None:
    """Returns the same figures of the clinicians, without `forced`: each of them by the others."""
    quality = metrics.human_metrics(decision_counts, MINIMUM_DECISIONS)
    if not len(quality["safety"]):
        return None
    quality["over_triage"] = quality["safety"] - quality["appropriateness"]
    quality["under_triage"] = 1 - quality["safety"]
    agreed = agreement.clinician_agreement(decision_counts, MINIMUM_DECISIONS, seed)
    return _plain({**metrics.summary(quality, seed), **(agreed or {})})


def paired(ours: Sequence[float], theirs: Sequence[float], seed: int) -> dict[str, Any]:
    """Returns the mean difference, ours minus theirs, with its interval over vignettes, ready for JSON.

    Args:
        ours: `[V]`, a value for each vignette.
        theirs: `[V]`, of the same vignettes in the same order.
        seed: of the bootstrap.
    """
    return metrics.estimate(np.asarray(ours) - np.asarray(theirs), seed)._asdict()


def _plain(estimates: dict[str, metrics.Estimate | None]) -> dict[str, Any]:
    return {name: None if estimate is None else estimate._asdict() for name, estimate in estimates.items()}

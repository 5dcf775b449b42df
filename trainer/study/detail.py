"""Detailed figures of one trained agent: agreement, calibration, slices, and unseen conditions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.triage import DECISION_LABELS
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import agreement, calibration, metrics, slices
from trainer.evaluation.figures import SliceFigures
from trainer.simulation.simulator import UNSEEN
from trainer.vignettes.arrays import VignetteArrays

_CONDITION = "condition="


def detail_figures(outcomes: Outcomes, vignettes: VignetteArrays, seed: int) -> dict[str, Any]:
    """Returns `agreement`, `reliability`, `slices` and `unseen` as results.json holds them.

    Args:
        outcomes: episodes of these vignettes, with Q-values.
        vignettes: one or more.
        seed: of the bootstrap.
    """
    counts = vignettes.decision_counts
    agreed = agreement.agent_agreement(outcomes.decisions, counts, seed)
    groups = slices.groups(vignettes.tags, counts, np.diff(vignettes.offsets))
    values = metrics.agent_metrics(outcomes, counts)
    return {
        "agreement": {
            "labels": list(DECISION_LABELS),
            "confusion": agreement.confusion_shares(outcomes.decisions, counts).mean(axis=0).tolist(),
            "red_sensitivity": agreed["red_sensitivity"],
            "kappa": agreed["weighted_kappa"],
        },
        "reliability": _reliability(outcomes, counts, seed),
        "slices": [_slice(each) for each in slices.slice_figures(values, groups, seed)],
        "unseen": _unseen(values, vignettes.tags, seed),
    }


def _reliability(outcomes: Outcomes, decision_counts: np.ndarray, seed: int) -> dict[str, Any]:
    if outcomes.q_values is None:
        raise ValueError("expected episodes with Q-values")
    calibrated = calibration.calibration(calibration.best_decision_pairs(outcomes.q_values, decision_counts), seed)
    bins = [
        {
            "low": each.low,
            "high": each.high,
            "count": each.states,
            "mean_q": each.predicted,
            "observed": each.observed.mean if each.observed else None,
        }
        for each in calibrated.curve
    ]
    return {"bins": bins, "ece": calibrated.expected_calibration_error.mean, "brier": calibrated.brier_score.mean}


def _slice(entry: SliceFigures) -> dict[str, Any]:
    kept = {name: entry.metrics[name] for name in ("appropriateness", "safety", "questions")}
    return {"slice": f"{entry.by.removeprefix('tag:')}={entry.value}", "vignettes": entry.vignettes, **kept}


def _unseen(values: dict[str, np.ndarray], tags: Sequence[Sequence[str]], seed: int) -> dict[str, Any] | None:
    contrast = slices.unseen_contrast(values, tags, seed)
    if contrast is None:
        return None
    tagged: np.ndarray = np.array([UNSEEN in names for names in tags])
    shown = ("questions", "evidence_seen", "appropriateness", "safety")
    sides = {
        side: {name: metrics.estimate(values[name][rows], seed) for name in shown}
        for side, rows in (("seen", ~tagged), ("unseen", tagged))
    }
    conditions = {
        name.removeprefix(_CONDITION)
        for names in tags
        if UNSEEN in names
        for name in names
        if name.startswith(_CONDITION)
    }
    return {
        "conditions": sorted(conditions),
        **sides,
        "difference": {"questions": contrast["questions"].difference},
    }

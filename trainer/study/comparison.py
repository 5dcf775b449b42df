"""Agents beside the clinicians: judged in the same way, on the same vignettes, and in pairs."""

from collections.abc import Mapping

import numpy as np

from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import agreement, as_clinicians, metrics
from trainer.evaluation.figures import Estimate, Estimates
from trainer.importing.vignette_statistics import MINIMUM_DECISIONS

QUALITY = ("appropriateness", "safety")


def agent_figures(outcomes: Outcomes, decision_counts: np.ndarray, seed: int) -> Estimates | None:
    """Returns an agent's figures in the place of each clinician; None where no vignette has enough decisions.

    Args:
        outcomes: episodes of V vignettes.
        decision_counts: `[V, 4]`.
        seed: of the bootstrap.

    Returns:
        An estimate of `appropriateness`, `safety`, `over_triage`, `under_triage`, `red_sensitivity`,
        `red_specificity` and `weighted_kappa` by all clinicians but one, and of `forced` on the same vignettes.
    """
    judged = as_clinicians.figures(outcomes.decisions, decision_counts, MINIMUM_DECISIONS, seed)
    if judged is None:
        return None
    forced = outcomes.forced.mean(axis=0)[decision_counts.sum(axis=1) >= MINIMUM_DECISIONS]
    return {**judged.by_all_but_one, "forced": metrics.estimate(forced, seed)}


def clinician_figures(decision_counts: np.ndarray, seed: int) -> Estimates | None:
    """Returns the same figures of the clinicians, without `forced`: each of them by the others."""
    quality = metrics.human_metrics(decision_counts, MINIMUM_DECISIONS)
    if not len(quality["safety"]):
        return None
    quality["over_triage"] = quality["safety"] - quality["appropriateness"]
    quality["under_triage"] = 1 - quality["safety"]
    agreed = agreement.clinician_agreement(decision_counts, MINIMUM_DECISIONS, seed)
    return {**metrics.summary(quality, seed), **(agreed or {})}


def judged_alike(
    decisions: np.ndarray, values: Mapping[str, np.ndarray], decision_counts: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns an agent's values on the vignettes on which clinicians are judged, float `[V']` each.

    The quality is by all clinicians but one, as theirs is: by all of them, it would be easier to be right.

    Args:
        decisions: int `[K, V]`, column of the decision in each of K evidence orders.
        values: float `[V]` each, such as `metrics.agent_metrics`.
        decision_counts: `[V, 4]`.
    """
    judged = judged_rows(decision_counts)
    quality = as_clinicians.quality(decisions, decision_counts, MINIMUM_DECISIONS)
    return {**{name: each[judged] for name, each in values.items()}, **quality}


def judged_rows(decision_counts: np.ndarray) -> np.ndarray:
    """Returns the places of the vignettes on which clinicians are judged, int `[V']`."""
    return np.flatnonzero(decision_counts.sum(axis=1) >= MINIMUM_DECISIONS)


def plain_values(values: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Returns the values of vignettes, ready for JSON."""
    return {name: each.tolist() for name, each in values.items()}


def paired(ours: np.ndarray, theirs: np.ndarray, seed: int) -> Estimate:
    """Returns the mean difference, ours minus theirs, with its interval over vignettes.

    Args:
        ours: `[V]`, a value for each vignette.
        theirs: `[V]`, of the same vignettes in the same order.
        seed: of the bootstrap.
    """
    return metrics.estimate(ours - theirs, seed)


def unpaired(ours: tuple[np.ndarray, np.ndarray], theirs: tuple[np.ndarray, np.ndarray], seed: int) -> Estimate | None:
    """Returns the difference of two ratios of sums over different vignettes, which are resampled apart.

    Args:
        ours: numerators and denominators, float `[V]` both; with denominators of 1, their ratio is a mean.
        theirs: `[W]` both.
        seed: of the bootstrap.

    Returns:
        An estimate; None where a ratio is not defined.
    """
    # With one seed, the draws of the two sides would be correlated.
    seeds = [int(drawn) for drawn in np.random.SeedSequence(seed).generate_state(2)]
    means, drawn = [], []
    for parts, own in zip((ours, theirs), seeds, strict=True):
        sums = np.stack(parts, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            means.append(float(_quotient(sums.sum(axis=0))))
            drawn.append(_quotient(metrics.resampled_sums(sums, own)))
    differences = drawn[0] - drawn[1]
    if np.isnan(means).any():
        return None
    enough = min(len(ours[0]), len(theirs[0])) > 1
    low, high = metrics.resampled_interval(differences[np.isfinite(differences)]) if enough else (None, None)
    return Estimate(means[0] - means[1], low, high, len(ours[0]))


def ratio(numerators: np.ndarray, denominators: np.ndarray, seed: int) -> Estimate | None:
    """Returns the ratio of the sums over the same vignettes, float `[V]` both; None if the denominator is 0."""
    parts = np.stack([numerators, denominators], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        [estimate] = metrics.estimates_of_sums(
            parts, lambda sums: _quotient(sums)[:, np.newaxis], [len(numerators)], seed
        )
    return estimate


def _quotient(sums: np.ndarray) -> np.ndarray:
    return np.where(sums[..., 1] == 0, np.nan, sums[..., 0] / sums[..., 1])

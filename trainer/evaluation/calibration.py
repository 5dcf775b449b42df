"""Q-values of triage decisions, read as probabilities: how often is a decision right when the agent is confident?

A perfect Q(s, a) is the expected reward P(a) / max P, which is at most the probability that `a` is appropriate: a
decision has a reward only if a clinician gave it, but is appropriate also between two given ones. So Q-values are too
low where clinicians disagree, and those that are too high are overconfident.

Pure NumPy functions. All vignettes have the same weight; the unit of the bootstrap is the vignette, as its states are
not independent.
"""

from typing import Any, NamedTuple

import numpy as np

from schemas.triage import NUM_DECISIONS
from trainer.evaluation.estimates import Calibration, Estimate, ReliabilityBin
from trainer.evaluation.metrics import estimates_of_sums, judge
from trainer.graph.decide import Heads

BINS = 10
_COUNT, _PREDICTED, _OBSERVED = range(3)  # the last axis of the sums


class Pairs(NamedTuple):
    """Predicted values and their outcomes, in K evidence orders of V vignettes."""

    predicted: np.ndarray  # float [K, V] in [0, 1]
    observed: np.ndarray  # float [K, V] in [0, 1]


def best_decision_pairs(q: np.ndarray, decision_counts: np.ndarray) -> Pairs:
    """Returns the highest Q-value of a triage decision in each state, and whether that decision is appropriate.

    Q-values are float `[K, V, 4]`, or `[K, V, A]` with the column of `ask`, which is ignored.
    """
    triage = q[..., :NUM_DECISIONS]
    decisions = triage.argmax(axis=-1)  # [K, V], ties: the most urgent one, as in the agent
    appropriate = judge(decisions, decision_counts)["appropriateness"]
    return Pairs(triage.max(axis=-1).astype(np.float64), appropriate.astype(np.float64))


def probability_pairs(heads: Heads, decisions: np.ndarray, decision_counts: np.ndarray) -> dict[str, Pairs]:
    """Returns P(appropriate) and P(safe) of the agent's own decisions, and whether they are `appropriate` and `safe`.

    Both heads are float `[K, V, 4]`, and `decisions` int `[K, V]`.
    """
    judged = judge(decisions, decision_counts)
    truths = {"appropriate": judged["appropriateness"], "safe": judged["safety"]}
    chosen = {name: np.take_along_axis(heads[name], decisions[..., np.newaxis], axis=-1)[..., 0] for name in truths}
    return {name: Pairs(chosen[name].astype(np.float64), truth.astype(np.float64)) for name, truth in truths.items()}


def every_probability_pairs(heads: Heads, decision_counts: np.ndarray) -> dict[str, Pairs]:
    """Returns P(appropriate) and P(safe) of all four decisions, and whether each would be `appropriate` and `safe`.

    Arguments are those of `probability_pairs`; the pairs are `[4 K, V]`.
    """
    shape = heads["safe"].shape[:2]
    each = [probability_pairs(heads, np.full(shape, decision), decision_counts) for decision in range(NUM_DECISIONS)]
    return {
        name: Pairs(*(np.concatenate(columns) for columns in zip(*(pairs[name] for pairs in each), strict=True)))
        for name in each[0]
    }


def calibration(pairs: Pairs, seed: int) -> Calibration:
    """Returns reliability curve and summary figures, with bootstrap intervals over vignettes."""
    sums = _bin_sums(pairs)
    vignettes = pairs.predicted.shape[1]
    in_bin = np.count_nonzero(sums[..., _COUNT], axis=0).tolist()
    errors: np.ndarray = np.square(pairs.predicted - pairs.observed).mean(axis=0)[:, np.newaxis] * len(pairs.predicted)
    parts = np.concatenate([sums.reshape(vignettes, -1), errors], axis=1)
    estimates = estimates_of_sums(parts, _figures, [*in_bin, *[vignettes] * 5], seed)
    total = sums.sum(axis=0)  # [bins, 3]
    curve = [
        ReliabilityBin(
            low=number / BINS,
            high=(number + 1) / BINS,
            states=int(total[number, _COUNT]),
            predicted=float(total[number, _PREDICTED] / total[number, _COUNT]) if total[number, _COUNT] else None,
            observed=estimates[number],
        )
        for number in range(BINS)
    ]
    # With at least one state, the summary figures are defined.
    predicted, observed, gap, error, brier = (estimate for estimate in estimates[BINS:] if estimate is not None)
    return Calibration(curve, predicted, observed, gap, _widened(error), brier)


def figures(heads: Heads, decisions: np.ndarray, decision_counts: np.ndarray, seed: int) -> dict[str, Any]:
    """Returns the calibration of what an agent says of its decisions; None for what it does not say.

    Returns:
        `probabilities`: P(appropriate) and P(safe), of the agent's own decision and of all four. Or `calibration`: the
        Q-values of the best decisions of an agent without probabilities; those of others are utilities.
    """
    found: dict[str, Any] = {"calibration": None, "probabilities": None}
    if "safe" in heads:
        parts = {
            "own_decision": probability_pairs(heads, decisions, decision_counts),
            "every_decision": every_probability_pairs(heads, decision_counts),
        }
        found["probabilities"] = {
            part: {name: calibration(each, seed) for name, each in pairs.items()} for part, pairs in parts.items()
        }
    elif "q" in heads:
        found["calibration"] = {"best_decision": calibration(best_decision_pairs(heads["q"], decision_counts), seed)}
    return found


def _bin_sums(pairs: Pairs) -> np.ndarray:
    """Returns, for each vignette and equal-width bin of predicted values, sums over the orders, float64 `[V, BINS, 3]`.

    The last axis is the number of states, the sum of their predicted values and the sum of their outcomes.
    """
    orders, vignettes = pairs.predicted.shape
    bins = np.minimum((pairs.predicted * BINS).astype(np.int64), BINS - 1)
    cells = (np.arange(vignettes) * BINS + bins).ravel()  # [K * V]
    weights = (np.ones(orders * vignettes), pairs.predicted.ravel(), pairs.observed.ravel())
    sums = [np.bincount(cells, weight, minlength=vignettes * BINS) for weight in weights]
    return np.stack(sums, axis=-1).reshape(vignettes, BINS, 3)


def _widened(error: Estimate) -> Estimate:
    """Returns the calibration error with an interval that is symmetric and within [0, 1].

    Resampling adds the sampling noise to the error a second time. The percentile interval of a perfectly calibrated
    agent never contains the true error, and sometimes not even the measured one.
    """
    if error.low is None or error.high is None:
        return error
    width = max(error.high - error.mean, error.mean - error.low)
    return error._replace(low=max(0.0, error.mean - width), high=min(1.0, error.mean + width))


def _figures(parts: np.ndarray) -> np.ndarray:
    """Returns the mean outcome of each bin and the five summary figures `[R, BINS + 5]` of sums `[R, 3 BINS + 1]`.

    The calibration error is the mean distance of predicted value and outcome over bins, weighted by states. Sampling
    noise adds to it, more with fewer vignettes: even a perfectly calibrated agent has more than 0.
    """
    sums = parts[:, :-1].reshape(-1, BINS, 3)
    count = sums[..., _COUNT]
    observed = np.divide(sums[..., _OBSERVED], count, out=np.full(count.shape, np.nan), where=count > 0)
    states = count.sum(axis=1)
    predicted_mean, observed_mean = (sums[..., column].sum(axis=1) / states for column in (_PREDICTED, _OBSERVED))
    summary = (
        predicted_mean,
        observed_mean,
        predicted_mean - observed_mean,
        np.abs(sums[..., _PREDICTED] - sums[..., _OBSERVED]).sum(axis=1) / states,
        parts[:, -1] / states,
    )
    return np.concatenate([observed, np.stack(summary, axis=1)], axis=1)

"""Triage metrics (paper, section "Metrics") and the human baseline (section "Baselines"): pure NumPy functions.

Every metric is first an average over the random evidence orders of one vignette; vignettes are the unit over which
means are taken and confidence intervals bootstrapped. `decisions` are int `[K, V]`, the column of the decision in each
of K evidence orders, and `decision_counts` `[V, 4]` what clinicians decided: Red, Yellow, Green, Blue.
"""

from collections.abc import Callable, Container, Mapping, Sequence

import numpy as np
import scipy.stats

from schemas.triage import NUM_DECISIONS, TRIAGE_DECISIONS
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation.estimates import Estimate

CONFIDENCE = 0.95
SHARES = frozenset({"appropriateness", "safety", "over_triage", "under_triage", "forced"})
"""Metrics that are shares of vignettes, in [0, 1]."""
RESAMPLES = 2000
_DRAWN_AT_ONCE = 5_000_000
"""Vignettes drawn in one go, so that a bootstrap stays below about 150 MB."""


def urgency_range(decision_counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the columns of the most urgent U(A) and the least urgent u(A) decision of each row, int `[V]` both."""
    given = decision_counts > 0
    return given.argmax(axis=1), NUM_DECISIONS - 1 - given[:, ::-1].argmax(axis=1)


def judge(decisions: np.ndarray, decision_counts: np.ndarray) -> dict[str, np.ndarray]:
    """Judges triage decisions by the clinicians' decisions on the same vignettes.

    Returns:
        bool `[K, V]` each, whether the decision has: `appropriateness` (between the most and the least urgent one
        given), `safety` (at least as urgent as the least urgent one), `over_triage` (more urgent than any given),
        `under_triage` (less urgent than any given).
    """
    most, least = urgency_range(decision_counts)
    over, under = decisions < most, decisions > least
    return {"appropriateness": ~over & ~under, "safety": ~under, "over_triage": over, "under_triage": under}


def triage_quality(decisions: np.ndarray, decision_counts: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the shares of the orders in which decisions are what `judge` says, float `[V]` in [0, 1] each."""
    return {name: truth.mean(axis=0) for name, truth in judge(decisions, decision_counts).items()}


def agent_metrics(outcomes: Outcomes, decision_counts: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the metrics of rolled-out episodes, float `[V]` each.

    `triage_quality`, and `questions` (including those in vain), `evidence_seen` (pieces known at the decision,
    the first one included), and `forced` (share of orders in which the question limit forced the decision).
    """
    return {
        **triage_quality(outcomes.decisions, decision_counts),
        "questions": outcomes.questions.mean(axis=0),
        "evidence_seen": outcomes.evidence_seen.mean(axis=0),
        "forced": outcomes.forced.mean(axis=0),
    }


def constant_metrics(decision_counts: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    """Returns the quality of always giving the same decision, by its label; every agent must beat the best of them."""
    return {
        decision.label: triage_quality(np.full((1, len(decision_counts)), decision), decision_counts)
        for decision in TRIAGE_DECISIONS
    }


def quality_by_others(
    decision_counts: np.ndarray, minimum_decisions: int, decisions: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Returns `triage_quality` by leave-one-out, float `[V']` each, for arguments see `by_all_but_one`.

    Without `decisions`, appropriateness and safety are the sample mean inter-expert agreement H_a and H_s (paper,
    section "Baselines").
    """
    names = ("appropriateness", "safety", "over_triage", "under_triage")

    def judged(made: np.ndarray, others: np.ndarray) -> np.ndarray:
        quality = triage_quality(made, others)
        return np.stack([quality[name] for name in names], axis=1)

    return dict(zip(names, by_all_but_one(decision_counts, minimum_decisions, judged, decisions).T, strict=True))


def by_all_but_one(
    decision_counts: np.ndarray,
    minimum_decisions: int,
    judged: Callable[[np.ndarray, np.ndarray], np.ndarray],
    decisions: np.ndarray | None = None,
) -> np.ndarray:
    """Returns the mean of `judged` over the clinicians of each vignette, each left out in turn, float `[V', M]`.

    A clinician is scored against the *others*. Scoring an agent against all of them widens the range of decisions that
    count as appropriate, which is more lenient. Here it takes the place of whoever is left out.

    Args:
        decision_counts: `[V, 4]`.
        minimum_decisions: the V' vignettes have so many, at least 2, as in the paper's table.
        judged: from decisions int `[K, V']` and the decision counts of the others `[V', 4]`, at least 1 decision a row,
            to figures `[V', M]`.
        decisions: of the agent, int `[K, V]`; None stands for that of whoever is left out.
    """
    enough = decision_counts.sum(axis=1) >= minimum_decisions
    counts = decision_counts[enough].astype(np.int64)
    means = 0.0
    for own in TRIAGE_DECISIONS:
        one = (counts[:, own] > 0)[:, np.newaxis] * np.eye(NUM_DECISIONS, dtype=np.int64)[own]
        made = np.full((1, len(counts)), own) if decisions is None else decisions[:, enough]
        share = counts[:, own] / counts.sum(axis=1)
        means = means + share[:, np.newaxis] * judged(made, counts - one)
    return np.asarray(means)


def exact_share(found: int, of: int) -> Estimate:
    """Returns the share of `found` among `of` > 0 vignettes with its exact 95% interval (Clopper and Pearson, 1934)."""
    interval = scipy.stats.binomtest(found, of).proportion_ci(CONFIDENCE, method="exact")
    return Estimate(found / of, float(interval.low), float(interval.high), of)


def estimate(values: np.ndarray, seed: int) -> Estimate:
    """Returns the mean of `values` `[V]` and its 95% percentile-bootstrap interval over vignettes, from `seed`."""
    [found] = estimates(values[:, np.newaxis], seed)
    return found


def estimates(values: np.ndarray, seed: int, shares: Container[int] = ()) -> list[Estimate]:
    """Returns the `estimate` of each column of `values` `[V, M]`, all of them from the same resampled vignettes.

    For `shares`, see `estimates_of_sums`.
    """
    count = len(values)
    means = estimates_of_sums(values, lambda sums: sums / count, [count] * values.shape[1], seed, shares)
    return [each for each in means if each is not None]  # a mean is always defined


def summary(metrics: Mapping[str, np.ndarray], seed: int, paired: bool = False) -> dict[str, Estimate]:
    """Returns the estimate of each metric, of the same vignettes; `paired` if they are differences of two agents."""
    shares = [] if paired else [place for place, name in enumerate(metrics) if name in SHARES]
    return dict(zip(metrics, estimates(np.stack(list(metrics.values()), axis=1), seed, shares), strict=True))


def episode_metrics(outcomes: Outcomes, decision_counts: np.ndarray, seed: int) -> dict[str, Estimate]:
    """Returns the estimate of each metric of an agent's episodes."""
    return summary(agent_metrics(outcomes, decision_counts), seed)


def estimates_of_sums(
    parts: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    vignettes: Sequence[int],
    seed: int,
    shares: Container[int] = (),
) -> list[Estimate | None]:
    """Returns figures that are not means over vignettes but functions of sums over them, such as ratios.

    Vignettes are resampled, and the figures are computed from the sums of each resample. Resamples in which a figure is
    not defined are ignored for that figure.

    Args:
        parts: `[V, ...]`, what each vignette adds to the sums.
        statistic: from sums `[R, ...]` to figures float `[R, S]`, NaN where not defined.
        vignettes: S numbers of vignettes that each figure is based on; fewer than 2 give no interval.
        seed: decides the resamples that intervals come from.
        shares: the places of figures that are shares. Of 0 or 1 no resample differs, so that the interval is exact.

    Returns:
        S estimates, None where a figure is not defined; percentile intervals of 95%.
    """
    measured = statistic(parts.sum(axis=0, dtype=np.float64)[np.newaxis])[0]  # [S]
    resampled = statistic(resampled_sums(parts, seed))  # [R, S]
    estimates: list[Estimate | None] = []
    for place, (value, values, count) in enumerate(zip(measured, resampled.T, vignettes, strict=True)):
        if np.isnan(value):
            estimates.append(None)
            continue
        if place in shares and count > 1 and (whole := round(float(value), 9)) in (0.0, 1.0):
            estimates.append(exact_share(int(whole) * count, count))
            continue
        defined = values[~np.isnan(values)]
        ends = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
        low, high = np.quantile(defined, ends).tolist() if count > 1 and len(defined) else (None, None)
        estimates.append(Estimate(float(value), low, high, int(count)))
    return estimates


def resampled_sums(parts: np.ndarray, seed: int) -> np.ndarray:
    """Returns the sums of `parts` `[V, ...]` over bootstrap samples of the V vignettes, float64 `[RESAMPLES, ...]`."""
    generator = np.random.default_rng(seed)
    vignettes = len(parts)
    flat: np.ndarray = parts.reshape(vignettes, -1).astype(np.float64)
    sums = []
    at_once = max(1, _DRAWN_AT_ONCE // vignettes)
    for start in range(0, RESAMPLES, at_once):
        rows = min(at_once, RESAMPLES - start)
        drawn = generator.integers(0, vignettes, [rows, vignettes]) + vignettes * np.arange(rows)[:, np.newaxis]
        times = np.bincount(drawn.ravel(), minlength=rows * vignettes).reshape(rows, vignettes)
        sums.append(times.astype(np.float64) @ flat)
    return np.concatenate(sums).reshape(RESAMPLES, *parts.shape[1:])

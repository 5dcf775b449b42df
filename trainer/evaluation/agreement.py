"""Agreement of triage decisions with the clinicians', beyond the paper's metrics: pure NumPy functions.

Each vignette has weight 1, regardless of its numbers of clinicians and evidence orders: all pairs of an order and a
clinician have equal shares of it. Columns are Red, Yellow, Green, Blue.

`decisions` are int `[K, V]`, the column of the decision in each of K evidence orders, and `decision_counts` `[V, 4]`
the clinicians' decisions, at least one for each vignette. Vignettes with fewer than `minimum_decisions`, which is at
least 2, are left out. `seed` is that of the bootstrap over vignettes.
"""

import numpy as np

from schemas.triage import NUM_DECISIONS, TRIAGE_DECISIONS, Action
from trainer.evaluation import metrics
from trainer.evaluation.estimates import AsClinicians, Estimate
from trainer.evaluation.metrics import by_all_but_one, estimates_of_sums

_DISTANCE = np.subtract.outer(np.arange(NUM_DECISIONS), np.arange(NUM_DECISIONS)).astype(np.float64)
_DISAGREEMENT = _DISTANCE**2  # [4, 4], quadratic weights of the kappa


def majority_decisions(decision_counts: np.ndarray) -> np.ndarray:
    """Returns the most frequent decision of each vignette, int `[V]`; of equally frequent ones, the most urgent."""
    return decision_counts.argmax(axis=1)


def confusion_shares(decisions: np.ndarray, decision_counts: np.ndarray) -> np.ndarray:
    """Returns what each vignette adds to the confusion matrix, float64 `[V, 4, 4]`; each vignette's sum is 1.

    Rows are the clinicians' decisions as shares of the vignette's decisions, columns the agent's as shares of the
    evidence orders. The sum over vignettes is the confusion matrix; its grand total is V.
    """
    clinicians = decision_counts / decision_counts.sum(axis=1, keepdims=True)
    agent = np.stack([(decisions == decision).mean(axis=0) for decision in TRIAGE_DECISIONS], axis=1)
    return clinicians[:, :, np.newaxis] * agent[:, np.newaxis, :]


def weighted_kappa(confusion: np.ndarray) -> np.ndarray:
    """Returns the quadratic weighted kappa of confusion matrices `[..., 4, 4]`, float `[...]` at most 1.

    1 is full agreement, 0 the agreement by chance of two raters with these decision frequencies. A disagreement counts
    by the squared number of urgency steps. NaN if both sides always give the same single decision.

    Cohen, "Weighted kappa", Psychological Bulletin 70(4), 1968.
    """
    total = confusion.sum(axis=(-2, -1))
    expected = confusion.sum(axis=-1)[..., :, np.newaxis] * confusion.sum(axis=-2)[..., np.newaxis, :]
    observed_disagreement = (_DISAGREEMENT * confusion).sum(axis=(-2, -1)) * total
    return 1.0 - _ratio(observed_disagreement, (_DISAGREEMENT * expected).sum(axis=(-2, -1)))


def detection_parts(decisions: np.ndarray, decision_counts: np.ndarray) -> np.ndarray:
    """Returns what each vignette adds to the sensitivity and specificity of Red, float64 `[V, 4]`.

    The reference is the majority decision. Columns: the reference is Red; it is, and the agent gives it too (share of
    the orders); the reference is another one; it is, and the agent gives another one too.
    """
    reference = majority_decisions(decision_counts) == Action.RED
    said = (decisions == Action.RED).mean(axis=0)
    return np.stack([reference, reference * said, ~reference, ~reference * (1.0 - said)], axis=1).astype(np.float64)


def detection_by_others(
    decision_counts: np.ndarray, minimum_decisions: int, decisions: np.ndarray | None = None
) -> np.ndarray:
    """Returns `detection_parts` `[V', 4]` by leave-one-out, for arguments see `metrics.by_all_but_one`."""
    return by_all_but_one(decision_counts, minimum_decisions, detection_parts, decisions)


def detection_rates(parts: np.ndarray) -> np.ndarray:
    """Returns sensitivity and specificity, float `[..., 2]` in [0, 1], of summed parts `[..., 4]`.

    NaN if no vignette has Red as its reference (sensitivity), or all have (specificity).
    """
    return np.stack([_ratio(parts[..., 1], parts[..., 0]), _ratio(parts[..., 3], parts[..., 2])], axis=-1)


def agent_agreement(decisions: np.ndarray, decision_counts: np.ndarray, seed: int) -> dict[str, Estimate | None]:
    """Returns the agent's agreement with the clinicians.

    Returns:
        `red_sensitivity` (share of the vignettes with the majority decision Red on which the agent decides Red; a tie
        with Red counts as Red), `red_specificity` (share of the others on which it does not), and `weighted_kappa`
        (quadratic weights, with each single decision of a clinician). None where not defined. The number of vignettes
        is that of the denominator.
    """
    detection = detection_parts(decisions, decision_counts)
    return agreement(joined(detection, confusion_shares(decisions, decision_counts)), seed)


def clinician_agreement(
    decision_counts: np.ndarray, minimum_decisions: int, seed: int
) -> dict[str, Estimate | None] | None:
    """Returns the same figures of the clinicians, each against the others; None if no vignette has enough decisions."""
    parts = clinician_parts(decision_counts, minimum_decisions)
    return agreement(parts, seed) if len(parts) else None


def leave_one_out(
    decisions: np.ndarray, decision_counts: np.ndarray, minimum_decisions: int, seed: int
) -> AsClinicians | None:
    """Returns the agent scored as clinicians are, on the vignettes on which they are; None where there are none."""
    enough = decision_counts.sum(axis=1) >= minimum_decisions
    if not enough.any():
        return None
    decisions, counts = decisions[:, enough], decision_counts[enough]
    ours = metrics.quality_by_others(counts, minimum_decisions, decisions)
    theirs = metrics.quality_by_others(counts, minimum_decisions)
    # A kappa compares one clinician at a time, so no decision has to be left out.
    red = detection_by_others(counts, minimum_decisions, decisions)
    agent = joined(red, confusion_shares(decisions, counts))
    clinicians = clinician_parts(counts, minimum_decisions)
    by_all = metrics.summary(metrics.triage_quality(decisions, counts), seed)
    return AsClinicians(
        vignettes=int(enough.sum()),
        by_all_but_one={**metrics.summary(ours, seed), **agreement(agent, seed)},
        by_all={**by_all, **agent_agreement(decisions, counts, seed)},
        less_clinicians={
            **metrics.summary({name: ours[name] - theirs[name] for name in theirs}, seed, paired=True),
            **agreement_difference(agent, clinicians, seed),
        },
    )


def clinician_parts(decision_counts: np.ndarray, minimum_decisions: int) -> np.ndarray:
    """Returns what each vignette adds to `agreement` for a clinician in the agent's place, `[V', 20]`.

    The shares of confusion are those of all pairs of two clinicians of a vignette.
    """
    counts = decision_counts[decision_counts.sum(axis=1) >= minimum_decisions].astype(np.float64)
    total = counts.sum(axis=1)
    with_itself = counts[:, :, np.newaxis] * np.eye(NUM_DECISIONS)
    pairs = counts[:, :, np.newaxis] * counts[:, np.newaxis, :] - with_itself
    detection = detection_by_others(decision_counts, minimum_decisions)
    return joined(detection, pairs / (total * (total - 1))[:, np.newaxis, np.newaxis])


def joined(detection: np.ndarray, confusion: np.ndarray) -> np.ndarray:
    """Returns `[V, 20]` of `detection_parts` `[V, 4]` of Red and `confusion_shares` `[V, 4, 4]`."""
    return np.concatenate([detection, confusion.reshape(len(confusion), NUM_DECISIONS**2)], axis=1)


def agreement(parts: np.ndarray, seed: int) -> dict[str, Estimate | None]:
    """Returns the figures of `agent_agreement` from what each vignette adds to them `[V, 20]`, see `joined`."""
    shares = range(2)  # the kappa is none
    return _named(estimates_of_sums(parts, _figures, _resting_on(parts), seed, shares))


def agreement_difference(ours: np.ndarray, theirs: np.ndarray, seed: int) -> dict[str, Estimate | None]:
    """Returns the figures of one rater less those of another, in pairs on the same V vignettes, see `agreement`."""

    def differences(sums: np.ndarray) -> np.ndarray:
        return _figures(sums[:, 0]) - _figures(sums[:, 1])

    return _named(estimates_of_sums(np.stack([ours, theirs], axis=1), differences, _resting_on(ours), seed))


def _figures(sums: np.ndarray) -> np.ndarray:
    """Returns sensitivity, specificity and kappa `[R, 3]` of summed parts `[R, 20]`."""
    detection, confusion = sums[:, :4], sums[:, 4:].reshape(-1, NUM_DECISIONS, NUM_DECISIONS)
    return np.concatenate([detection_rates(detection), weighted_kappa(confusion)[:, np.newaxis]], axis=1)


def _resting_on(parts: np.ndarray) -> list[int]:
    return [*np.count_nonzero(parts[:, [0, 2]], axis=0).tolist(), len(parts)]


def _named(estimates: list[Estimate | None]) -> dict[str, Estimate | None]:
    return dict(zip(("red_sensitivity", "red_specificity", "weighted_kappa"), estimates, strict=True))


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=whole > 0)

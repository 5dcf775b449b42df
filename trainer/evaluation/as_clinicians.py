"""The agent scored by leave-one-out, as clinicians are: on the same vignettes, against all clinicians but one.

A clinician is scored against the *others*. Scoring the agent against all of them widens the range of decisions that
count as appropriate, which is more lenient. Here each clinician is left out in turn, and the agent takes that place.

Arguments are those of `trainer.evaluation.agreement`.
"""

import numpy as np

from schemas.triage import Action
from trainer.evaluation import agreement, metrics
from trainer.evaluation.estimates import AsClinicians


def leave_one_out(
    decisions: np.ndarray, decision_counts: np.ndarray, minimum_decisions: int, seed: int
) -> AsClinicians | None:
    """Returns the agent's figures on the vignettes on which clinicians are scored; None where there are none."""
    enough = decision_counts.sum(axis=1) >= minimum_decisions
    if not enough.any():
        return None
    decisions, counts = decisions[:, enough], decision_counts[enough].astype(np.int64)
    by_all = metrics.triage_quality(decisions, counts)
    ours, theirs = quality(decisions, counts, minimum_decisions), metrics.human_quality(counts, minimum_decisions)
    # A kappa compares one clinician at a time, so no decision has to be left out.
    red = red_detection_parts(decisions, counts, minimum_decisions)
    agent = agreement.joined(red, agreement.confusion_shares(decisions, counts))
    clinicians = agreement.clinician_parts(counts, minimum_decisions)
    return AsClinicians(
        vignettes=int(enough.sum()),
        by_all_but_one={**metrics.summary(ours, seed), **agreement.agreement(agent, seed)},
        by_all={**metrics.summary(by_all, seed), **agreement.agent_agreement(decisions, counts, seed)},
        less_clinicians={
            **metrics.summary({name: ours[name] - theirs[name] for name in theirs}, seed, paired=True),
            **agreement.agreement_difference(agent, clinicians, seed),
        },
    )


def quality(decisions: np.ndarray, decision_counts: np.ndarray, minimum_decisions: int) -> dict[str, np.ndarray]:
    """Returns `metrics.triage_quality` against all clinicians but one, float `[V']`, without those with few."""
    enough = decision_counts.sum(axis=1) >= minimum_decisions
    decisions, counts = decisions[:, enough], decision_counts[enough].astype(np.int64)
    names = list(metrics.triage_quality(decisions, counts))
    judged = metrics.by_all_but_one(
        counts, lambda others, _: np.stack(list(metrics.triage_quality(decisions, others).values()), axis=1)
    )
    return dict(zip(names, judged.T, strict=True))


def red_detection_parts(decisions: np.ndarray, decision_counts: np.ndarray, minimum_decisions: int) -> np.ndarray:
    """Returns `agreement.detection_parts` of Red against all clinicians but one, `[V', 4]`; arguments as `quality`."""
    enough = decision_counts.sum(axis=1) >= minimum_decisions
    decisions, counts = decisions[:, enough], decision_counts[enough].astype(np.int64)
    return metrics.by_all_but_one(counts, lambda others, _: agreement.detection_parts(decisions, others, Action.RED))

"""Plays an agent on vignettes and measures it: the figures that `triage evaluate` and an export's manifest hold."""

from typing import NamedTuple

import keras
import numpy as np

from schemas.safety_rules import RuleSet
from schemas.triage import DECISION_LABELS, MAX_QUESTIONS, Action, may_be_red
from trainer.data.arrays import VignetteArrays
from trainer.data.state import Vignettes
from trainer.dyqn.rollout import Outcomes, Rollout, greedy_policy
from trainer.evaluation import agreement, calibration, metrics, slices
from trainer.evaluation.estimates import AgentFigures, Baselines, Compared, Confusion, RuleEffect
from trainer.graph.decide import NEUTRAL, OperatingPoint
from trainer.graph.operating_point import HAND_OVER_FROM
from trainer.graph.rules import RuleGraph
from triage_runtime.command_line.progress import followed

_RULED = ("appropriateness", "safety", "over_triage", "under_triage", "questions")
_RED = ("red_sensitivity", "red_specificity")
DEFER_BELOW = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""P(safe) of the decision below which a case is handed over."""


def agent_outcomes(
    network: keras.Model,
    vignettes: Vignettes,
    seeds: list[int],
    max_questions: int = MAX_QUESTIONS,
    rules: RuleGraph | None = None,
    point: OperatingPoint | None = None,
) -> Outcomes:
    """Returns the episodes of the greedy agent, one evidence order for each of `seeds`; shows the progress.

    With `rules` the agent obeys them; `point` says how it weighs the probabilities of a network that has them.
    """
    policy = greedy_policy(network, rules, point or NEUTRAL)
    rollout = Rollout(vignettes, network.input_shape[-1], max_questions, policy)
    return rollout.run(followed(seeds, "play", "orders"))


def agent_figures(outcomes: Outcomes, vignettes: VignetteArrays, seed: int) -> AgentFigures:
    """Returns the figures of any agent's episodes."""
    counts, heads = vignettes.decision_counts, outcomes.heads
    values = metrics.agent_metrics(outcomes, counts)
    groups = slices.groups(vignettes.tags, counts, np.diff(vignettes.offsets))
    confusion = agreement.confusion_shares(outcomes.decisions, counts).sum(axis=0)
    return AgentFigures(
        agent=metrics.summary(values, seed),
        agreement=agreement.agent_agreement(outcomes.decisions, counts, seed),
        confusion=Confusion("clinicians", "agent", DECISION_LABELS, confusion.tolist()),
        **calibration.figures(heads, outcomes.decisions, counts, seed),
        slices=slices.slice_figures(values, groups, seed),
    )


def rule_effect(
    rules: RuleSet,
    without: Outcomes,
    with_rules: Outcomes,
    decision_counts: np.ndarray,
    minimum_decisions: int,
    seed: int,
) -> RuleEffect:
    """Returns what safety rules change in the same K evidence orders of V vignettes, played without and with them."""
    before, after = (metrics.agent_metrics(outcomes, decision_counts) for outcomes in (without, with_rules))
    change = {name: after[name] - before[name] for name in _RULED}
    three = (metrics.summary(before, seed), metrics.summary(after, seed), metrics.summary(change, seed, paired=True))
    compared = {name: Compared(*(each[name] for each in three)) for name in _RULED}
    rates = [agreement.agent_agreement(outcomes.decisions, decision_counts, seed) for outcomes in (without, with_rules)]
    red = {name: Compared(rates[0][name], rates[1][name], None) for name in _RED}
    return RuleEffect(
        rules=rules.described(),
        metrics={**compared, **red},
        changed=float((without.decisions != with_rules.decisions).mean()),
        as_clinicians=agreement.leave_one_out(with_rules.decisions, decision_counts, minimum_decisions, seed),
    )


def baseline_figures(decision_counts: np.ndarray, minimum_decisions: int, seed: int) -> Baselines:
    """Returns the figures of the clinicians and of the constant policies on the same vignettes."""
    human = metrics.quality_by_others(decision_counts, minimum_decisions)
    constants = metrics.constant_metrics(decision_counts)
    return Baselines(
        human=metrics.summary(human, seed) if len(human["appropriateness"]) else None,
        human_agreement=agreement.clinician_agreement(decision_counts, minimum_decisions, seed),
        human_minimum_decisions=minimum_decisions,
        constants={f"always {label.lower()}": metrics.summary(quality, seed) for label, quality in constants.items()},
    )


class HandedOver(NamedTuple):
    """A threshold of `DEFER_BELOW` or of `HAND_OVER_FROM`, with shares in [0, 1]; None without such cases."""

    defer_below: float | None
    hand_over_from: float | None  # P(Red is appropriate) from which a decision below Red is handed over
    handed_over: float  # of all episodes
    under_triage: float | None  # of the episodes that are left: less urgent than any clinician decided
    red_missed: float | None  # of those whom clinicians call Red: they leave below Red, and no person looks


def hand_over_effects(outcomes: Outcomes, decision_counts: np.ndarray) -> list[HandedOver]:
    """Returns the figures of each threshold, those of P(safe) first; none of an agent without probabilities."""
    decisions, heads = outcomes.decisions, outcomes.heads
    if "safe" not in heads:
        return []
    safe = np.take_along_axis(heads["safe"], decisions[..., np.newaxis], axis=2)[..., 0]  # [K, V]
    under = metrics.judge(decisions, decision_counts)["under_triage"]
    red = agreement.majority_decisions(decision_counts) == Action.RED

    def row(defer_below: float | None, hand_over_from: float | None, handed_over: np.ndarray) -> HandedOver:
        left = ~handed_over
        late, below = under & left, (decisions > Action.RED) & left
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

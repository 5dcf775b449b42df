"""Chooses when to stop and how to weigh safety, on vignettes that the deciding network has not learned from.

A larger weight never makes a decision less urgent, as P(safe) never falls with urgency. So under-triage falls with the
weight, as conformal risk control requires (Angelopoulos et al., 2022); `least_point` handles the exceptions.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas.errors import InputError
from schemas.triage import Action
from trainer.decision import rewards
from trainer.decision.decision import NEUTRAL, PRICES, OperatingPoint, appropriate, best_triage, decide, safe

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
"""The safety weights to choose from."""
CHOICES = (*PRICES, *(math.sqrt(low * high) for low, high in itertools.pairwise(PRICES)))
"""The prices of a question to choose from."""
BUDGET = 0.01
"""P(appropriate), and likewise P(safe), that an operating point may cost against the best that asks for everything."""


class HeldOutOutputs(NamedTuple):
    """A network's outputs for vignettes that it has not learned from, after 1, 2, ... all pieces of evidence."""

    outputs: np.ndarray  # float32 [R, O], vignette by vignette
    sizes: np.ndarray  # int64 [M], pieces of evidence of each vignette; their sum is R
    decision_counts: np.ndarray  # [M, 4]


class HeldOut(NamedTuple):
    """Vignettes that networks have not learned from; None if there are none."""

    judged: HeldOutOutputs | None
    """From the networks that have not learned from a vignette: for calibration and the operating point."""
    apart: HeldOutOutputs | None
    """From all networks: none has learned from these vignettes. Used only for a bound on under-triage."""


NOTHING_HELD_OUT = HeldOut(None, None)


class Quality(NamedTuple):
    """The results of an operating point on held-out vignettes; shares in [0, 1]."""

    appropriateness: float
    safety: float
    over_triage: float
    red_found: float | None
    """Share decided Red of the vignettes with the majority decision Red, ties included; None if there are none."""
    evidence: float
    """Share of the evidence that is known at the decision."""


def quality(held_out: HeldOutOutputs, point: OperatingPoint) -> Quality:
    """Returns the results of an operating point, which decides each vignette where it stops, or at the last piece."""
    known = stops(held_out, point)  # [M]
    decisions = decisions_at(held_out, known, point)
    counts = held_out.decision_counts
    right, no_less = (_taken(rule(counts).numpy(), decisions) for rule in (rewards.appropriate, rewards.safe))
    red = counts.argmax(axis=1) == Action.RED
    return Quality(
        appropriateness=float(right.mean()),
        safety=float(no_less.mean()),
        over_triage=float((no_less & ~right).mean()),
        red_found=float((decisions[red] == Action.RED).mean()) if red.any() else None,
        evidence=float(known.sum() / held_out.sizes.sum()),
    )


def stops(held_out: HeldOutOutputs, point: OperatingPoint) -> np.ndarray:
    """Returns int64 `[M]`, the pieces of evidence that are known when the agent stops asking."""
    here: np.ndarray = np.ones(len(held_out.outputs), bool)
    ends = np.cumsum(held_out.sizes)
    stopping = decide(tf.constant(held_out.outputs), ~here, here, point).numpy() != Action.ASK
    stopping[ends - 1] = True
    places = np.flatnonzero(stopping)
    starts = ends - held_out.sizes
    return places[np.searchsorted(places, starts)] - starts + 1


def decisions_at(held_out: HeldOutOutputs, known: np.ndarray, point: OperatingPoint) -> np.ndarray:
    """Returns int32 `[M]`, the triage decision of each vignette after the first `known` `[M]` pieces of evidence."""
    return best_triage(tf.constant(_outputs_at(held_out, known)), point).numpy()


class _Candidate(NamedTuple):
    """An operating point, and the means of what the network expects where it stops."""

    operating_point: OperatingPoint
    appropriate: float
    safe: float
    known: float  # pieces of evidence

    def dominates(self, other: "_Candidate") -> bool:
        """Returns whether it is at least as good as `other` in all three, and better in one."""
        mine, others = ((each.appropriate, each.safe, -each.known) for each in (self, other))
        return mine != others and all(here >= there for here, there in zip(mine, others, strict=True))


def choose(held_out: HeldOutOutputs) -> OperatingPoint:
    """Returns the operating point of a trained agent: weight and price together.

    It asks least among the points that cost at most `BUDGET` of P(appropriate) and at most `BUDGET` of P(safe) against
    deciding at the neutral weight when everything is asked. A point that another one dominates is never chosen. All are
    means of the calibrated probabilities where the agent stops: the decisions of the clinicians on a few hundred
    vignettes would be too noisy.
    """
    everything = _expected(held_out, held_out.sizes, NEUTRAL)
    candidates = [
        _candidate(held_out, OperatingPoint(weight, price=price))
        for weight in WEIGHTS
        if weight <= 4
        for price in sorted(CHOICES)
    ]
    good = [candidate for candidate in candidates if _within_budget(candidate, everything)]
    best = [candidate for candidate in good if not any(other.dominates(candidate) for other in candidates)]
    if not best:
        return with_price(held_out, NEUTRAL.safety_weight)
    return min(best, key=lambda each: (each.known, -each.appropriate - each.safe)).operating_point


def with_price(held_out: HeldOutOutputs, weight: float) -> OperatingPoint:
    """Returns the operating point with `weight` and the highest price within the budgets of `choose`, at this weight.

    P(appropriate) and P(safe) have a budget each: at a large weight, their weighted mean would hide any loss of the
    former.
    """
    everything = _expected(held_out, held_out.sizes, OperatingPoint(weight))
    for price in sorted(CHOICES, reverse=True):
        if _within_budget(_candidate(held_out, OperatingPoint(weight, price=price)), everything):
            return OperatingPoint(weight, price=price)
    return OperatingPoint(weight, price=PRICES[0])


def _candidate(held_out: HeldOutOutputs, point: OperatingPoint) -> _Candidate:
    known = stops(held_out, point)
    return _Candidate(point, *_expected(held_out, known, point), float(known.mean()))


def _within_budget(candidate: _Candidate, everything: "_Expected") -> bool:
    return everything.appropriate - candidate.appropriate <= BUDGET and everything.safe - candidate.safe <= BUDGET


def least_point(
    held_out: HeldOutOutputs, under_triage_at_most: float, points: Sequence[OperatingPoint]
) -> OperatingPoint:
    """Returns the first of `points`, by rising weight, that keeps under-triage below a bound: conformal risk control.

    On new vignettes like the held-out ones, under-triage is at most the bound in expectation: on average over training
    sets, not for each of them.

    Raises:
        InputError: the bound is not a share, there are too few vignettes for it, or no weight reaches it.
    """
    count, bound = len(held_out.sizes), under_triage_at_most
    if not 0 < bound < 1:
        raise InputError(f"under-triage at most {bound:g}: expected a share above 0 and below 1")
    least = int(np.ceil(1 / bound)) - 1
    if count < least:
        raise InputError(
            f"under-triage at most {bound:g} needs at least {least} held-out vignettes, and there are {count}: choose "
            "a higher bound, or train on more vignettes"
        )
    losses = np.stack([_under_triage(held_out, point) for point in points])  # [D, M]
    # A larger weight may stop earlier, and so do worse on a vignette. The guarantee needs losses that never rise with
    # the weight, so each vignette has the worst loss of this weight and all larger ones.
    never_rising = np.maximum.accumulate(losses[::-1])[::-1]
    for point, under_triage in zip(points, never_rising.sum(axis=1), strict=True):
        if (under_triage + 1) / (count + 1) <= bound:
            return point
    raise InputError(
        f"under-triage at most {bound:g}: no weight up to {points[-1].safety_weight:g} reaches it on the {count} "
        "held-out vignettes: choose a higher bound, or train on more vignettes"
    )


class _Expected(NamedTuple):
    """Means of what the network expects of its decisions."""

    appropriate: float
    safe: float


def _expected(held_out: HeldOutOutputs, known: np.ndarray, point: OperatingPoint) -> _Expected:
    """Returns the expectations for the decisions after the first `known` `[M]` pieces of evidence of each vignette."""
    outputs = tf.constant(_outputs_at(held_out, known))
    chosen = best_triage(outputs, point).numpy()
    return _Expected(*(float(_taken(each(outputs).numpy(), chosen).mean()) for each in (appropriate, safe)))


def _outputs_at(held_out: HeldOutOutputs, known: np.ndarray) -> np.ndarray:
    """Returns the outputs `[M, O]` after the first `known` `[M]` pieces of evidence of each vignette."""
    return held_out.outputs[np.cumsum(held_out.sizes) - held_out.sizes + known - 1]


def _under_triage(held_out: HeldOutOutputs, point: OperatingPoint) -> np.ndarray:
    """Returns bool `[M]`: the decision is less urgent than any that clinicians gave."""
    decisions = decisions_at(held_out, stops(held_out, point), point)
    return ~_taken(rewards.safe(held_out.decision_counts).numpy(), decisions)


def _taken(holds: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    return np.take_along_axis(holds, decisions[:, np.newaxis], axis=1)[:, 0]

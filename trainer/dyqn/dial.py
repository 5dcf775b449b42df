"""Chooses when to stop and how to weigh safety, by vignettes that the deciding network has not learned from.

A larger weight never makes a decision less urgent, as P(safe) never falls with urgency. So under-triage falls with the
weight, which is what conformal risk control asks for (Angelopoulos et al., 2022); `least_dial` handles the exceptions.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas.errors import InputError
from schemas.triage import Action
from trainer.dyqn import rewards
from trainer.dyqn.decision import Dial, appropriate, best_triage, decide, merits

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
"""The safety weights that are chosen among."""
THRESHOLDS = tuple(round(0.5 + 0.01 * step, 2) for step in range(50))
"""The values of `Dial.sure_enough` that are chosen among, those that stop earlier first."""
COST_OF_SAFETY = 0.01
"""P(appropriate) that safety may cost where no bound on under-triage is asked for."""
COST_OF_STOPPING = 0.015
"""Merit that deciding before all evidence is known may cost."""


class HeldOutOutputs(NamedTuple):
    """What a network makes of vignettes that it has not learned from, after one, two and up to all their pieces."""

    outputs: np.ndarray  # float32 [R, O], vignette by vignette
    sizes: np.ndarray  # int64 [M], pieces of evidence of each vignette; their sum is R
    decision_counts: np.ndarray  # [M, 4]


class HeldOut(NamedTuple):
    """Vignettes that networks have not learned from; None where there are none."""

    judged: HeldOutOutputs | None
    """By the networks that have not learned from them, while others have. They calibrate, and choose the dial."""
    apart: HeldOutOutputs | None
    """By all networks. None has learned from them, and nothing but a bound on under-triage is chosen by them."""


NOTHING_HELD_OUT = HeldOut(None, None)


class Quality(NamedTuple):
    """What a dial makes of held-out vignettes; shares in [0, 1]."""

    appropriateness: float
    safety: float
    over_triage: float
    red_found: float | None
    """Decisions for Red where most clinicians say Red, equally many counting as most; None where there is no such."""
    evidence: float
    """Share of the evidence that is known at the decision."""


def quality(held_out: HeldOutOutputs, dial: Dial) -> Quality:
    """Returns what a dial makes of held-out vignettes: each is decided where it stops, or at its last piece."""
    known = stops(held_out, dial)  # [M]
    decisions = decisions_at(held_out, known, dial)
    counts = held_out.decision_counts
    right, safe = (_taken(rule(counts).numpy(), decisions) for rule in (rewards.appropriate, rewards.safe))
    red = counts.argmax(axis=1) == Action.RED
    return Quality(
        appropriateness=float(right.mean()),
        safety=float(safe.mean()),
        over_triage=float((safe & ~right).mean()),
        red_found=float((decisions[red] == Action.RED).mean()) if red.any() else None,
        evidence=float(known.sum() / held_out.sizes.sum()),
    )


def stops(held_out: HeldOutOutputs, dial: Dial) -> np.ndarray:
    """Returns int64 `[M]`, the pieces of evidence that are known when the agent stops asking."""
    here: np.ndarray = np.ones(len(held_out.outputs), bool)
    ends = np.cumsum(held_out.sizes)
    stopping = decide(tf.constant(held_out.outputs), ~here, here, dial).numpy() != Action.ASK
    stopping[ends - 1] = True
    places = np.flatnonzero(stopping)
    starts = ends - held_out.sizes
    return places[np.searchsorted(places, starts)] - starts + 1


def decisions_at(held_out: HeldOutOutputs, known: np.ndarray, dial: Dial) -> np.ndarray:
    """Returns int32 `[M]`, the triage decision of each vignette after the first `known` `[M]` pieces of evidence."""
    return best_triage(tf.constant(_outputs_at(held_out, known)), dial).numpy()


def choose(held_out: HeldOutOutputs) -> Dial:
    """Returns the dial of a trained agent.

    Of the weights it is the largest that costs at most `COST_OF_SAFETY` of P(appropriate); then, of the thresholds, the
    one that stops earliest at a cost of at most `COST_OF_STOPPING` of the merit. Both are means of the calibrated
    probabilities: what clinicians said of a few hundred vignettes would be too noisy to choose by.
    """
    by_weight = [(weight, _expected(held_out, held_out.sizes, Dial(weight)).appropriate) for weight in WEIGHTS]
    least = by_weight[0][1] - COST_OF_SAFETY
    return with_threshold(held_out, max(weight for weight, appropriateness in by_weight if appropriateness >= least))


def with_threshold(held_out: HeldOutOutputs, weight: float) -> Dial:
    """Returns the dial with a weight, and with the threshold that stops earliest at the cost that `choose` allows.

    A threshold suits one weight only: the larger the weight, the closer to 1 is what is compared with it.
    """
    least = _expected(held_out, held_out.sizes, Dial(weight)).merit - COST_OF_STOPPING
    for threshold in THRESHOLDS[:-1]:
        dial = Dial(weight, threshold)
        if _expected(held_out, stops(held_out, dial), dial).merit >= least:
            return dial
    return Dial(weight, THRESHOLDS[-1])


def least_dial(held_out: HeldOutOutputs, under_triage_at_most: float, dials: Sequence[Dial]) -> Dial:
    """Returns the first of `dials`, by rising weight, that keeps under-triage below a bound: conformal risk control.

    On new vignettes like the held-out ones under-triage is at most the bound in expectation: on the average over
    training sets, not on each of them.

    Raises:
        InputError: the bound is no share, there are too few vignettes for it, or no weight reaches it.
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
    losses = np.stack([_under_triage(held_out, dial) for dial in dials])  # [D, M]
    # A larger weight may stop the questions earlier, and so do worse on a vignette. The guarantee needs losses that
    # never rise with the weight, so a vignette counts as the worst of all larger weights.
    never_rising = np.maximum.accumulate(losses[::-1])[::-1]
    for dial, under_triage in zip(dials, never_rising.sum(axis=1), strict=True):
        if (under_triage + 1) / (count + 1) <= bound:
            return dial
    raise InputError(
        f"under-triage at most {bound:g}: no weight up to {dials[-1].safety_weight:g} reaches it on the {count} "
        "held-out vignettes: choose a higher bound, or train on more vignettes"
    )


class _Expected(NamedTuple):
    """Means of what the network expects of decisions."""

    appropriate: float
    merit: float


def _expected(held_out: HeldOutOutputs, known: np.ndarray, dial: Dial) -> _Expected:
    """Returns what is expected of the decisions after the first `known` `[M]` pieces of evidence of each vignette."""
    outputs = tf.constant(_outputs_at(held_out, known))
    chosen = best_triage(outputs, dial).numpy()
    return _Expected(
        float(_taken(appropriate(outputs).numpy(), chosen).mean()),
        float(merits(outputs, dial).numpy().max(axis=1).mean()),
    )


def _outputs_at(held_out: HeldOutOutputs, known: np.ndarray) -> np.ndarray:
    """Returns the outputs `[M, O]` after the first `known` `[M]` pieces of evidence of each vignette."""
    return held_out.outputs[np.cumsum(held_out.sizes) - held_out.sizes + known - 1]


def _under_triage(held_out: HeldOutOutputs, dial: Dial) -> np.ndarray:
    """Returns bool `[M]`: the decision is less urgent than any that clinicians gave."""
    decisions = decisions_at(held_out, stops(held_out, dial), dial)
    return ~_taken(rewards.safe(held_out.decision_counts).numpy(), decisions)


def _taken(holds: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    return np.take_along_axis(holds, decisions[:, np.newaxis], axis=1)[:, 0]

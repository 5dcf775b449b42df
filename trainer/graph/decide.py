"""Chooses the action from the network's outputs: the one rule for the policy and for every exported signature.

A decision is worth its utility, asking is worth Q(ask), which holds the price of a question, and the agent does what is
worth most. A stopping threshold is the least that asking is worth: below it, no decision is good enough yet. It falls
with each known piece of evidence: what many answers have not settled, one more seldom does.

Of equal values, the more urgent decision wins, and a triage decision wins over asking. Values that differ by less than
`TIE` count as equal, as engines round the same sum differently. If nothing at all is known about a patient, the action
is ask, even if triage is forced: no agent learns from an empty state.
"""

import dataclasses
import math

import numpy as np
import tensorflow as tf

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action, may_be_red

TIE = 1e-6
"""Values closer than this are equal."""
SAFETY_SHARES = (0.0, 0.5, 0.8)
"""Shares of P(safe) in the utility, w / (1 + w), for which Q(ask) is learned: of the safety weights 0, 1 and 4."""
PRICES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032)
"""Prices of a question, in utility, for which Q(ask) is learned."""
ASK_POINTS = tuple((share, price) for share in SAFETY_SHARES for price in PRICES)
"""The operating points for which Q(ask) is learned, in the order of the outputs."""
DECLINE = 0.0015
"""By how much each known piece of evidence lowers a stopping threshold.

With the same threshold throughout, almost half of the interviews of an agent of cards go to the limit, and decide no
better.
"""
_ASKING = NUM_ACTIONS + 2 * NUM_DECISIONS
_DECLINE = _ASKING + len(ASK_POINTS)


@dataclasses.dataclass(frozen=True)
class OperatingPoint:
    """How an agent weighs its probabilities. A network without probabilities decides by its Q-values alone.

    The triage decision is the one with the highest utility, (P(appropriate) + w P(safe)) / (1 + w), where w is the
    `safety_weight`. The agent asks while Q(ask) at the `price` of a question is worth more than that utility, and
    while that utility is below `sure_enough`, if given, less `DECLINE` for each known piece of evidence. For a caller
    who wants cases handed over to a person, it hands over what it decides below Red where Red is appropriate with a
    probability of `hand_over_from` or more, if given.
    """

    safety_weight: float = 1.0
    sure_enough: float | None = None
    price: float = 0.004
    hand_over_from: float | None = None


NEUTRAL = OperatingPoint()


def decide(outputs: tf.Tensor, forced: tf.Tensor, known: tf.Tensor, point: OperatingPoint = NEUTRAL) -> tf.Tensor:
    """Returns the best action of each row, int32 `[B]`.

    Args:
        outputs: float32 `[B, A]` or `[B, O]`, see `trainer.dyqn.network`.
        forced: bool `[B]`, rows that must triage because asking is not possible.
        known: bool `[B]`, rows in which anything is known, see `anything_known`; the others ask.
        point: how probabilities are weighed.
    """
    return tf.where(known & (forced | ~would_ask(outputs, point)), best_triage(outputs, point), int(Action.ASK))


def would_ask(outputs: tf.Tensor, point: OperatingPoint = NEUTRAL) -> tf.Tensor:
    """Returns whether asking is worth more than the best triage decision, bool `[B]`."""
    if not has_probabilities(outputs):
        return _first_best(outputs[:, :NUM_ACTIONS]) == Action.ASK
    return worth_of_asking(outputs, point) > tf.reduce_max(utilities(outputs, point), axis=1) + TIE


def handed_over(outputs: tf.Tensor, decisions: tf.Tensor, point: OperatingPoint) -> tf.Tensor:
    """Returns whether decisions int `[B]` on `outputs` `[B, O]` are left to a person who looks, bool `[B]`."""
    if point.hand_over_from is None or not has_probabilities(outputs):
        return tf.zeros_like(decisions, tf.bool)
    return may_be_red(decisions, appropriate(outputs)[:, Action.RED], point.hand_over_from)


def anything_known(states: tf.Tensor) -> tf.Tensor:
    """Returns whether each of the states `[B, E]` holds a piece of evidence, bool `[B]`."""
    return tf.reduce_any(states != 0, axis=1)


def best_triage(outputs: tf.Tensor, point: OperatingPoint = NEUTRAL) -> tf.Tensor:
    """Returns the best triage decision of each row of `outputs` `[B, A]` or `[B, O]`, int32 `[B]`, never ask."""
    return _first_best(utilities(outputs, point))


def utilities(outputs: tf.Tensor, point: OperatingPoint = NEUTRAL) -> tf.Tensor:
    """Returns the values by which a triage decision is chosen, `[B, 4]` in [0, 1]: utilities or Q-values."""
    if not has_probabilities(outputs):
        return outputs[:, :NUM_DECISIONS]
    return (appropriate(outputs) + point.safety_weight * safe(outputs)) / (1 + point.safety_weight)


def has_probabilities(outputs: tf.Tensor) -> bool:
    """Returns whether `outputs` hold probabilities after the Q-values."""
    return outputs.shape[-1] > NUM_ACTIONS


def appropriate(outputs: tf.Tensor) -> tf.Tensor:
    """Returns the probability `[B, 4]` that each decision is appropriate."""
    return outputs[:, NUM_ACTIONS : NUM_ACTIONS + NUM_DECISIONS]


def safe(outputs: tf.Tensor) -> tf.Tensor:
    """Returns the probability `[B, 4]` that each decision is safe."""
    return outputs[:, NUM_ACTIONS + NUM_DECISIONS : _ASKING]


def ask_value(outputs: tf.Tensor, point: OperatingPoint = NEUTRAL) -> tf.Tensor:
    """Returns Q(ask) `[B]` of outputs `[B, O]` at an operating point, interpolated between those that were learned.

    It is linear in the share of P(safe), up to the share 1, at which a question can bring nothing; and in the logarithm
    of the price, which counts as the nearest learned one where it lies beyond them.
    """
    share = point.safety_weight / (1 + point.safety_weight)
    price = min(max(point.price, PRICES[0]), PRICES[-1])
    by_price = _interpolation(math.log(price), tuple(map(math.log, PRICES)))  # [P]
    by_share = _interpolation(share, (*SAFETY_SHARES, 1.0))  # [S + 1]
    weights: np.ndarray = np.outer(by_share[:-1], by_price).ravel().astype(np.float32)  # [S P]
    learned = outputs[:, _ASKING:_DECLINE]
    return tf.linalg.matvec(learned, weights) + float(by_share[-1]) * (1 - price)


def worth_of_asking(outputs: tf.Tensor, point: OperatingPoint = NEUTRAL) -> tf.Tensor:
    """Returns what a decision must be worth to end asking, `[B]`: Q(ask), or the threshold where that is more."""
    if not has_probabilities(outputs):
        return outputs[:, Action.ASK]
    asking = ask_value(outputs, point)
    return asking if point.sure_enough is None else tf.maximum(asking, point.sure_enough - outputs[:, _DECLINE])


def q_values(outputs: tf.Tensor, point: OperatingPoint = NEUTRAL) -> tf.Tensor:
    """Returns the Q-values `[B, A]` of outputs `[B, A]` or `[B, O]`; that of `ask` is its worth at `point`."""
    if not has_probabilities(outputs):
        return outputs
    return tf.concat([outputs[:, :NUM_DECISIONS], worth_of_asking(outputs, point)[:, tf.newaxis]], axis=1)


def _interpolation(place: float, knots: tuple[float, ...]) -> np.ndarray:
    """Returns the weight of each of the rising `knots` in a linear interpolation at `place`, which lies among them."""
    return np.array([np.interp(place, knots, row) for row in np.eye(len(knots))])


def _first_best(values: tf.Tensor) -> tf.Tensor:
    """Returns the first column of each row whose value is the highest, up to `TIE`; int32 `[B]`."""
    best = tf.cast(values >= tf.reduce_max(values, axis=-1, keepdims=True) - TIE, tf.float32)
    # tf.argmax does not define ties; top_k guarantees that the lower index comes first.
    return tf.squeeze(tf.math.top_k(best, k=1).indices, axis=-1)  # [B]

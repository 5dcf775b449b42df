"""Chooses the action from the network's outputs: the one rule for the policy and for every exported signature.

The agent does what has the highest Q-value: one of four triage decisions, or asking. Of equal values, the more urgent
decision wins, and a triage decision wins over asking. Values that differ by less than `TIE` count as equal, as engines
round the same sum differently. If nothing at all is known about a patient, the action is ask, even if triage is forced:
no agent learns from an empty state.

Outputs `[B, O]` hold the five Q-values in the order of the actions. If the network has probabilities, four columns
follow for the probability that each triage decision is appropriate, then four that it is safe, in urgency order.
"""

import dataclasses

import tensorflow as tf

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action, may_be_red

TIE = 1e-6
"""Values closer than this are equal."""


@dataclasses.dataclass(frozen=True)
class OperatingPoint:
    """What a caller may ask of an agent beside its Q-values.

    Asking is worth at least `sure_enough`, if given: the agent then asks on while its best decision is worth less. For
    a caller who wants cases handed over to a person, it hands over what it decides below Red where Red is appropriate
    with a probability of `hand_over_from` or more, if given.
    """

    sure_enough: float | None = None
    hand_over_from: float | None = None


NEUTRAL = OperatingPoint()


def decide(outputs: tf.Tensor, forced: tf.Tensor, known: tf.Tensor, point: OperatingPoint = NEUTRAL) -> tf.Tensor:
    """Returns the best action of each row, int32 `[B]`.

    Args:
        outputs: float32 `[B, O]`.
        forced: bool `[B]`, rows that must triage because asking is not possible.
        known: bool `[B]`, rows in which anything is known, see `anything_known`; the others ask.
        point: what a caller asks for.
    """
    return tf.where(known & (forced | ~would_ask(outputs, point)), best_triage(outputs), int(Action.ASK))


def would_ask(outputs: tf.Tensor, point: OperatingPoint = NEUTRAL) -> tf.Tensor:
    """Returns whether asking is worth more than the best triage decision, bool `[B]`."""
    return _first_best(q_values(outputs, point)) == Action.ASK


def handed_over(outputs: tf.Tensor, decisions: tf.Tensor, point: OperatingPoint) -> tf.Tensor:
    """Returns whether decisions int `[B]` on `outputs` `[B, O]` are left to a person who looks, bool `[B]`."""
    if point.hand_over_from is None or not has_probabilities(outputs):
        return tf.zeros_like(decisions, tf.bool)
    return may_be_red(decisions, appropriate(outputs)[:, Action.RED], point.hand_over_from)


def anything_known(states: tf.Tensor) -> tf.Tensor:
    """Returns whether each of the states `[B, E]` holds a piece of evidence, bool `[B]`."""
    return tf.reduce_any(states != 0, axis=1)


def best_triage(outputs: tf.Tensor) -> tf.Tensor:
    """Returns the best triage decision of each row of `outputs` `[B, O]`, int32 `[B]`, never ask."""
    return _first_best(outputs[:, :NUM_DECISIONS])


def q_values(outputs: tf.Tensor, point: OperatingPoint = NEUTRAL) -> tf.Tensor:
    """Returns the Q-values `[B, A]` of outputs `[B, O]`; that of `ask` is at least what the caller wants."""
    if point.sure_enough is None:
        return outputs[:, :NUM_ACTIONS]
    asking = tf.maximum(outputs[:, Action.ASK : NUM_ACTIONS], point.sure_enough)
    return tf.concat([outputs[:, :NUM_DECISIONS], asking], axis=1)


def has_probabilities(outputs: tf.Tensor) -> bool:
    """Returns whether `outputs` hold probabilities after the Q-values."""
    return outputs.shape[-1] > NUM_ACTIONS


def appropriate(outputs: tf.Tensor) -> tf.Tensor:
    """Returns the probability `[B, 4]` that each decision is appropriate."""
    return outputs[:, NUM_ACTIONS : NUM_ACTIONS + NUM_DECISIONS]


def safe(outputs: tf.Tensor) -> tf.Tensor:
    """Returns the probability `[B, 4]` that each decision is safe."""
    return outputs[:, NUM_ACTIONS + NUM_DECISIONS :]


def _first_best(values: tf.Tensor) -> tf.Tensor:
    """Returns the first column of each row whose value is the highest, up to `TIE`; int32 `[B]`."""
    best = tf.cast(values >= tf.reduce_max(values, axis=-1, keepdims=True) - TIE, tf.float32)
    # tf.argmax does not define ties; top_k guarantees that the lower index comes first.
    return tf.squeeze(tf.math.top_k(best, k=1).indices, axis=-1)  # [B]

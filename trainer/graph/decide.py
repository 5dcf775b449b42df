"""Chooses the action from the network's Q-values: the one rule for the policy and for every exported signature.

The agent takes the action with the highest Q-value: one of four triage decisions, or ask. Of equal values, the more
urgent decision wins, and a triage decision wins over ask. Values that differ by less than `TIE` count as equal, because
engines round the same sum differently. If nothing is known about a patient, the action is ask, even if triage is
forced: no agent learns from an empty state.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from schemas.triage import NUM_DECISIONS, Action, may_be_red

Heads = dict[str, Any]
"""The outputs of a network for states `[B, E]`: float32 tensors or arrays by name.

`q` `[B, A]` are the Q-values. With probabilities there are `appropriate` and `safe` `[B, 4]`, too: the probabilities
that each triage decision is appropriate, and that it is safe.
"""
TIE = 1e-6
"""Values closer than this are equal."""


@dataclasses.dataclass(frozen=True)
class OperatingPoint:
    """Thresholds of a caller beside the Q-values.

    If `sure_enough` is given, asking is worth at least that: the agent keeps asking while its best decision is worth
    less. If `hand_over_from` is given, a decision below Red is handed over to a person where P(appropriate) of Red is
    that or more, for callers who want cases handed over.
    """

    sure_enough: float | None = None
    hand_over_from: float | None = None


NEUTRAL = OperatingPoint()


def decide(q: tf.Tensor, forced: tf.Tensor, known: tf.Tensor, point: OperatingPoint = NEUTRAL) -> tf.Tensor:
    """Returns the best action of each row, int32 `[B]`.

    Args:
        q: Q-values float32 `[B, A]`.
        forced: bool `[B]`, rows that must triage because asking is not possible.
        known: bool `[B]`, rows in which anything is known, see `anything_known`; the others ask.
        point: what a caller asks for.
    """
    return tf.where(known & (forced | ~would_ask(q, point)), best_triage(q), int(Action.ASK))


def would_ask(q: tf.Tensor, point: OperatingPoint = NEUTRAL) -> tf.Tensor:
    """Returns whether asking is worth more than the best triage decision, bool `[B]`."""
    return _first_best(with_floor(q, point)) == Action.ASK


def handed_over(heads: Heads, decisions: tf.Tensor, point: OperatingPoint) -> tf.Tensor:
    """Returns whether decisions int `[B]` are handed over to a person, bool `[B]`."""
    if point.hand_over_from is None or "appropriate" not in heads:
        return tf.zeros_like(decisions, tf.bool)
    return may_be_red(decisions, heads["appropriate"][:, Action.RED], point.hand_over_from)


def anything_known(states: tf.Tensor) -> tf.Tensor:
    """Returns whether each of the states `[B, E]` holds a piece of evidence, bool `[B]`."""
    return tf.reduce_any(states != 0, axis=1)


def best_triage(q: tf.Tensor) -> tf.Tensor:
    """Returns the triage decision with the highest of Q-values `[B, A]`, int32 `[B]`; never ask."""
    return _first_best(q[:, :NUM_DECISIONS])


def with_floor(q: tf.Tensor, point: OperatingPoint = NEUTRAL) -> tf.Tensor:
    """Returns the Q-values `[B, A]`, with that of `ask` raised to the caller's threshold."""
    if point.sure_enough is None:
        return q
    return tf.concat([q[:, :NUM_DECISIONS], tf.maximum(q[:, Action.ASK :], point.sure_enough)], axis=1)


def _first_best(values: tf.Tensor) -> tf.Tensor:
    """Returns the first column of each row whose value is the highest, up to `TIE`; int32 `[B]`."""
    best = tf.cast(values >= tf.reduce_max(values, axis=-1, keepdims=True) - TIE, tf.float32)
    # tf.argmax does not define ties; top_k guarantees that the lower index comes first.
    return tf.squeeze(tf.math.top_k(best, k=1).indices, axis=-1)  # [B]

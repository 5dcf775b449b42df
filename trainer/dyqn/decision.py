"""What to do, given Q-values: the one rule that the policy and every exported signature share.

Equal Q-values go to the first column, the more urgent one, and a triage decision comes before asking. `tf.argmax`
leaves ties open, so `tf.math.top_k` decides: it documents that the lower index comes first. Where nothing at all is
known about a patient the answer is ask, also where triage is forced: no agent learned on an empty state.
"""

import tensorflow as tf

from schemas.triage import NUM_DECISIONS, Action


def decide(q_values: tf.Tensor, forced: tf.Tensor, known: tf.Tensor) -> tf.Tensor:
    """Returns the best action of each row, int32 `[B]`.

    Args:
        q_values: float32 `[B, A]`, the triage decisions in urgency order, then ask.
        forced: bool `[B]`, rows in which asking is not possible, so that the answer is a triage decision.
        known: bool `[B]`, rows in which anything is known, see `anything_known`; the others ask.
    """
    decided = tf.where(forced, best_triage(q_values), _first_best(q_values))
    return tf.where(known, decided, int(Action.ASK))


def anything_known(states: tf.Tensor) -> tf.Tensor:
    """Returns whether each of the states `[B, E]` holds a piece of evidence, bool `[B]`."""
    return tf.reduce_any(states != 0, axis=1)


def best_triage(q_values: tf.Tensor) -> tf.Tensor:
    """Returns the best triage decision of each row of `q_values` `[B, A]`, int32 `[B]`, never ask."""
    return _first_best(q_values[:, :NUM_DECISIONS])


def _first_best(q_values: tf.Tensor) -> tf.Tensor:
    return tf.squeeze(tf.math.top_k(q_values, k=1).indices, axis=-1)  # [B]

"""What to do, given Q-values: the one rule that the policy and every exported signature share.

Equal Q-values go to the first column, the more urgent one, and a triage decision comes before asking. `tf.argmax`
leaves ties open, so `tf.math.top_k` decides: it documents that the lower index comes first.
"""

import tensorflow as tf

from schemas.triage import NUM_DECISIONS


def decide(q_values: tf.Tensor, forced: tf.Tensor) -> tf.Tensor:
    """Returns the best action of each row, int32 `[B]`.

    Args:
        q_values: float32 `[B, A]`, the triage decisions in urgency order, then ask.
        forced: bool `[B]`, rows in which asking is not possible, so that the answer is a triage decision.
    """
    return tf.where(forced, best_triage(q_values), _first_best(q_values))


def best_triage(q_values: tf.Tensor) -> tf.Tensor:
    """Returns the best triage decision of each row of `q_values` `[B, A]`, int32 `[B]`, never ask."""
    return _first_best(q_values[:, :NUM_DECISIONS])


def _first_best(q_values: tf.Tensor) -> tf.Tensor:
    return tf.squeeze(tf.math.top_k(q_values, k=1).indices, axis=-1)  # [B]

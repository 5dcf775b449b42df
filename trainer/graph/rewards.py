"""The counterfactual reward, and which triage decisions are appropriate and safe given the clinicians' decisions.

Pure functions over the columns Red, Yellow, Green, Blue. Only the proportions of a row's non-negative weights matter,
so decision counts and the reward computed from them give the same result.
"""

import tensorflow as tf


def counterfactual_reward(decision_counts: tf.Tensor) -> tf.Tensor:
    """Returns the reward r of each triage decision (paper, section "Counterfactual reward").

    Args:
        decision_counts: `[B, 4]`, number of clinicians who gave each decision, at least one in each row.

    Returns:
        float32 `[B, 4]` in [0, 1]: how common the decision is, relative to the most common one.
    """
    counts = tf.cast(decision_counts, tf.float32)
    return counts / tf.reduce_max(counts, axis=-1, keepdims=True)


def appropriate(decision_weights: tf.Tensor) -> tf.Tensor:
    """Returns bool `[B, 4]`: the decisions from the most to the least urgent one given, inclusive.

    Paper, section "Metrics": two clinicians who say Red and Green make Red, Yellow and Green appropriate.
    """
    given = tf.cast(decision_weights > 0, tf.int32)
    from_most_urgent = tf.cumsum(given, axis=-1) > 0
    to_least_urgent = tf.cumsum(given, axis=-1, reverse=True) > 0
    return from_most_urgent & to_least_urgent


def safe(decision_weights: tf.Tensor) -> tf.Tensor:
    """Returns bool `[B, 4]`: the decisions at least as urgent as the least urgent one given (paper, "Metrics")."""
    return tf.cumsum(tf.cast(decision_weights > 0, tf.int32), axis=-1, reverse=True) > 0

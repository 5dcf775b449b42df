"""The counterfactual reward, and which triage decisions the clinicians' decisions make appropriate.

Pure functions over the columns Red, Yellow, Green, Blue. All take a row of non-negative weights of which only the
proportions matter, so that a row of decision counts and the reward made of it mean the same.
"""

import tensorflow as tf


def counterfactual_reward(decision_counts: tf.Tensor) -> tf.Tensor:
    """Returns the reward r of each triage decision (paper, section "Counterfactual reward").

    Args:
        decision_counts: `[B, 4]`, multiplicity of each decision among the clinicians, at least one a row.

    Returns:
        float32 `[B, 4]` in [0, 1]: how common the decision is, relative to the most common one.
    """
    counts = tf.cast(decision_counts, tf.float32)
    return counts / tf.reduce_max(counts, axis=-1, keepdims=True)


def appropriate(decision_weights: tf.Tensor) -> tf.Tensor:
    """Returns bool `[B, 4]`: the decisions between the most and the least urgent one given, ends included.

    Paper, section "Metrics": two clinicians who say Red and Green make Red, Yellow and Green appropriate.
    """
    given = tf.cast(decision_weights > 0, tf.int32)
    from_most_urgent = tf.cumsum(given, axis=-1) > 0
    to_least_urgent = tf.cumsum(given, axis=-1, reverse=True) > 0
    return from_most_urgent & to_least_urgent


def safe(decision_weights: tf.Tensor) -> tf.Tensor:
    """Returns bool `[B, 4]`: the decisions at least as urgent as the least urgent one given (paper, "Metrics")."""
    return tf.cumsum(tf.cast(decision_weights > 0, tf.int32), axis=-1, reverse=True) > 0

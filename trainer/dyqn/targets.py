"""TD targets of the Dynamic Q-Network (paper, section "Dynamic Q-Learning"): pure functions over `[B, A]`.

Columns are in urgency order, Red, Yellow, Green, Blue, and `ask` is the last one. Q-values and rewards lie in [0, 1].
"""

from typing import NamedTuple

import tensorflow as tf

from schemas.triage import NUM_DECISIONS, Action
from trainer.config import TargetConfig
from trainer.graph.rewards import appropriate, safe


class Transition(NamedTuple):
    """A step as the memory keeps it, e = (s, a, r, s'); states as below, or as signed codes int32 [B, W]."""

    s_tm1: tf.Tensor  # float32 [B, E]
    a_tm1: tf.Tensor  # int32 [B]
    r_t: tf.Tensor  # float32 [B, 4], the counterfactual reward of every triage decision
    s_t: tf.Tensor  # float32 [B, E]
    asked: tf.Tensor  # bool [B], whether s' follows the question that the policy asks: then `ask` is learned from it


def best_triage_value(q: tf.Tensor, allowed: tf.Tensor | None = None) -> tf.Tensor:
    """Returns Q_m(s) `[B]`, the highest Q-value of a triage decision (paper, section "The OR query").

    Args:
        q: `[B, A]`.
        allowed: bool `[B, 4]`, the decisions to choose from; None means all. With the appropriate decisions of the
            memory this is Q_m(s given e), the last definition of section "The AND query".
    """
    triage = q[:, :NUM_DECISIONS]
    if allowed is not None:
        triage = tf.where(allowed, triage, -1.0)  # below every Q-value
    return tf.reduce_max(triage, axis=-1)


class Asking(NamedTuple):
    """What queries compute the target of `ask` from; a query that needs more adds a field."""

    best_tm1: tf.Tensor  # Q_m(s), float32 [B]
    best_t: tf.Tensor  # Q_m(s'), float32 [B]
    ask_t: tf.Tensor  # Q(s', ask), float32 [B]
    price: float = 0.0  # of a question, in [0, 1)


def or_ask_target(q: Asking) -> tf.Tensor:
    """Returns the target of `ask` `[B]` under the OR query, eq:target-q-asking-or."""
    return (1.0 - q.best_tm1) + q.best_tm1 * q.best_t


def and_ask_target(q: Asking) -> tf.Tensor:
    """Returns the target of `ask` `[B]` under the AND query, eq:target-q-asking-and."""
    return (1.0 - q.best_tm1) * (q.best_t + (1.0 - q.best_t) * q.ask_t)


def value_ask_target(q: Asking) -> tf.Tensor:
    """Returns the target of `ask` `[B]` of classic Q-learning: the value of s', less the price."""
    return tf.nn.relu(tf.maximum(q.best_t, q.ask_t) - q.price)


QUERIES = {"or": or_ask_target, "and": and_ask_target, "value": value_ask_target}
"""The ask target of each query; the names are `trainer.config.ASK_QUERIES`."""


def td_targets(q_tm1: tf.Tensor, q_t: tf.Tensor, r_t: tf.Tensor, config: TargetConfig) -> tf.Tensor:
    """Returns the target Q-value of every action `[B, A]`; no gradient flows through it.

    A triage decision is terminal, so its target is its reward; the target of `ask` is given by the configured query.

    Args:
        q_tm1: Q(s, .) `[B, A]`.
        q_t: Q(s', .) `[B, A]`, of the same network: the paper keeps no target network.
        r_t: counterfactual reward `[B, 4]`.
        config: the query, and the decisions over which Q_m is taken.
    """
    allowed = appropriate(r_t) if config.best_triage_over == "appropriate" else None
    best_tm1, best_t = best_triage_value(q_tm1, allowed), best_triage_value(q_t, allowed)
    q = Asking(best_tm1, best_t, q_t[:, Action.ASK], config.price)
    ask = QUERIES[config.ask_query](q)
    return tf.stop_gradient(tf.concat([r_t, ask[:, tf.newaxis]], axis=-1))


def value_target(q_t: tf.Tensor, price: float) -> tf.Tensor:
    """Returns the target of Q(ask) `[B]`: the highest Q-value in s', less the price; no gradient flows through it.

    Args:
        q_t: Q(s', .) `[B, A]`, of all networks together.
        price: of a question, in [0, 1).
    """
    return tf.stop_gradient(tf.nn.relu(tf.reduce_max(q_t, axis=1) - price))


def cumulative_truths(r_t: tf.Tensor) -> tf.Tensor:
    """Returns float32 `[B, 6]`, 0 or 1: the truth of each cumulative logit of `trainer.dyqn.network`.

    Args:
        r_t: counterfactual reward `[B, 4]`.
    """
    none_less_urgent = tf.cumsum(tf.cast(r_t > 0, tf.int32), axis=1) > 0  # somebody was at least as urgent
    return tf.cast(tf.concat([safe(r_t)[:, 1:], ~none_less_urgent[:, :-1]], axis=1), tf.float32)


def cumulative_targets(together_t: tf.Tensor, r_t: tf.Tensor, bootstrap: float) -> tf.Tensor:
    """Returns the target of each cumulative probability, float32 `[B, 6]`; no gradient flows through it.

    A probability in s is its expected value in s', over all answers. One patient's decisions are a noisy sample of it,
    and a network that learns from them alone overfits.

    Args:
        together_t: probabilities `[B, 6]` in s', of all networks together.
        r_t: counterfactual reward `[B, 4]`.
        bootstrap: weight of the probability in s'; the truth has the rest.
    """
    return tf.stop_gradient(bootstrap * together_t + (1 - bootstrap) * cumulative_truths(r_t))


def priority(q_tm1: tf.Tensor, r_t: tf.Tensor) -> tf.Tensor:
    """Returns the priority nu `[B]` of transitions (paper, section "Memory").

    The absolute value of the mean *signed* TD error over the four triage decisions, whose targets are the rewards.
    """
    return tf.abs(tf.reduce_mean(r_t - q_tm1[:, :NUM_DECISIONS], axis=-1))

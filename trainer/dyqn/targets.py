"""TD targets of the Dynamic Q-Network (paper, section "Dynamic Q-Learning"): pure functions over `[B, A]`.

Columns are in urgency order, Red, Yellow, Green, Blue, and `ask` is the last one. Q-values and rewards lie in [0, 1].
"""

from typing import NamedTuple

import tensorflow as tf

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action
from trainer.config import TargetConfig
from trainer.graph import decide
from trainer.graph.decide import ASK_POINTS
from trainer.graph.rewards import appropriate, safe


class Transition(NamedTuple):
    """A step as the memory keeps it, e = (s, a, r, s'); states as below, or as signed codes int32 [B, W]."""

    s_tm1: tf.Tensor  # float32 [B, E]
    a_tm1: tf.Tensor  # int32 [B]
    r_t: tf.Tensor  # float32 [B, 4], the counterfactual reward of every triage decision
    s_t: tf.Tensor  # float32 [B, E]


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
    """What queries make the target of `ask` of; a query that needs more gives this a field."""

    best_tm1: tf.Tensor  # Q_m(s), float32 [B]
    best_t: tf.Tensor  # Q_m(s'), float32 [B]
    ask_t: tf.Tensor  # Q(s', ask), float32 [B]
    price: float  # of a question, in [0, 1)


def or_ask_target(q: Asking) -> tf.Tensor:
    """Returns the target of `ask` `[B]` under the OR query, eq:target-q-asking-or."""
    return (1.0 - q.best_tm1) + q.best_tm1 * q.best_t


def and_ask_target(q: Asking) -> tf.Tensor:
    """Returns the target of `ask` `[B]` under the AND query, eq:target-q-asking-and."""
    return (1.0 - q.best_tm1) * (q.best_t + (1.0 - q.best_t) * q.ask_t)


def value_ask_target(q: Asking) -> tf.Tensor:
    """Returns the target of `ask` `[B]` as the value of going on: the most that s' is worth, less the price."""
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
    q = Asking(best_tm1, best_t, q_t[:, Action.ASK], config.ask_price)
    ask = QUERIES[config.ask_query](q)
    return tf.stop_gradient(tf.concat([r_t, ask[:, tf.newaxis]], axis=-1))


def loss_weights(a_tm1: tf.Tensor, config: TargetConfig) -> tf.Tensor:
    """Returns float32 `[B, A]`: 1 for actions in the loss, 0 for the others.

    All actions are in the loss (the vector form of the paper), except for `ask` after a triage decision with
    `ask_successor` "taken_only".
    """
    everywhere = tf.ones([tf.shape(a_tm1)[0], NUM_DECISIONS])
    if config.ask_successor == "taken_only":
        ask = tf.cast(a_tm1 == Action.ASK, tf.float32)[:, tf.newaxis]
    else:
        ask = tf.ones([tf.shape(a_tm1)[0], 1])
    return tf.concat([everywhere, ask], axis=-1)


def probability_targets(r_t: tf.Tensor) -> tf.Tensor:
    """Returns float32 `[B, 8]`: whether each decision is appropriate (four columns), then whether it is safe (four).

    Args:
        r_t: counterfactual reward `[B, 4]`.
    """
    return tf.cast(tf.concat([appropriate(r_t), safe(r_t)], axis=-1), tf.float32)


def probability_td_targets(outputs_t: tf.Tensor, r_t: tf.Tensor, bootstrap: float) -> tf.Tensor:
    """Returns the target of each probability, float32 `[B, 8]`; no gradient flows through it.

    A probability in s is what it is expected to be in s', whatever the answer will be. One patient's decisions are a
    noisy sample of it, and a network that learns from them alone overfits.

    Args:
        outputs_t: `[B, O]`, of all networks together in s'.
        r_t: counterfactual reward `[B, 4]`.
        bootstrap: share of the probability in s'; the truth has the rest.
    """
    values_t = tf.concat([decide.appropriate(outputs_t), decide.safe(outputs_t)], axis=1)
    return tf.stop_gradient(bootstrap * values_t + (1 - bootstrap) * probability_targets(r_t))


def ask_point_targets(outputs_t: tf.Tensor) -> tf.Tensor:
    """Returns the target of Q(ask) at each of the P operating points `trainer.graph.decide.ASK_POINTS`, `[B, P]`.

    At each of them it is the value of going on: the utility of the best decision in s', or Q(s', ask) where that is
    more, less the price of the question. No gradient flows through it.

    Args:
        outputs_t: `[B, O]`, in s'.
    """
    columns = []
    learned = outputs_t[:, NUM_ACTIONS + 2 * NUM_DECISIONS :]
    for number, (share, price) in enumerate(ASK_POINTS):
        best = tf.reduce_max((1 - share) * decide.appropriate(outputs_t) + share * decide.safe(outputs_t), axis=1)
        columns.append(tf.nn.relu(tf.maximum(best, learned[:, number]) - price))
    return tf.stop_gradient(tf.stack(columns, axis=1))


def mean_logits(r_t: tf.Tensor, probabilities: bool) -> tf.Tensor:
    """Returns the logits, float32 `[L]`, with which a network gives the average targets for every state.

    Args:
        r_t: counterfactual reward `[V, 4]` of the vignettes.
        probabilities: whether the network has probabilities and single decisions, see `trainer.dyqn.network`.
    """
    means = [tf.reduce_mean(r_t, axis=0), [0.5]]  # the value of asking depends on the network
    if probabilities:
        means += [tf.reduce_mean(probability_targets(r_t), axis=0), tf.fill([len(ASK_POINTS)], 0.75)]
    mean = tf.clip_by_value(tf.concat(means, axis=0), 0.01, 0.99)
    logits = tf.math.log(mean / (1 - mean))
    if not probabilities:
        return logits
    shares = tf.reduce_mean(decision_shares(r_t), axis=0)
    return tf.concat([logits, tf.math.log(tf.maximum(shares, 0.01))], axis=0)


def decision_shares(r_t: tf.Tensor) -> tf.Tensor:
    """Returns the share of clinicians who gave each decision, `[B, 4]`, from the counterfactual reward `[B, 4]`."""
    return r_t / tf.reduce_sum(r_t, axis=1, keepdims=True)


def priority(q_tm1: tf.Tensor, r_t: tf.Tensor) -> tf.Tensor:
    """Returns the priority nu `[B]` of transitions (paper, section "Memory").

    The absolute value of the mean *signed* TD error over the four triage decisions, whose targets are the rewards.
    """
    return tf.abs(tf.reduce_mean(r_t - q_tm1[:, :NUM_DECISIONS], axis=-1))

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from schemas.triage import NUM_ACTIONS, Action
from trainer.config import TargetConfig
from trainer.dyqn import targets
from trainer.dyqn.network import LEARNED_OUTPUTS, WITH_PROBABILITIES

# Different Q-values in s and s', so that mistaking one for the other shows. Columns: Red, Yellow, Green, Blue, ask.
Q_TM1 = [[0.2, 0.6, 0.9, 0.1, 0.5]]
Q_T = [[0.3, 0.8, 0.4, 0.7, 0.25]]
R_T = [[0.5, 1.0, 0.0, 0.0]]  # {Red, Yellow, Yellow}: Red and Yellow are appropriate


@pytest.mark.parametrize(
    ("query", "over", "expected"),
    [
        # Q_m(s) = 0.9 (Green), Q_m(s') = 0.8 (Yellow): (1 - 0.9) + 0.9 * 0.8 = 0.82
        ("or", "all", 0.82),
        # Q_m(s) = 0.6 (Yellow), Q_m(s') = 0.8 (Yellow): (1 - 0.6) + 0.6 * 0.8 = 0.88
        ("or", "appropriate", 0.88),
        # (1 - 0.9) * (0.8 + (1 - 0.8) * 0.25) = 0.1 * 0.85 = 0.085
        ("and", "all", 0.085),
        # (1 - 0.6) * (0.8 + (1 - 0.8) * 0.25) = 0.4 * 0.85 = 0.34
        ("and", "appropriate", 0.34),
        # the most that s' is worth, less the price: max(0.8, 0.25) - 0.3 = 0.5
        ("value", "all", 0.5),
    ],
)
def test_targets_worked_out_by_hand(query, over, expected):
    config = TargetConfig(ask_query=query, best_triage_over=over, ask_price=0.3)
    result = targets.td_targets(tf.constant(Q_TM1), tf.constant(Q_T), tf.constant(R_T), config)
    np.testing.assert_allclose(result[0], [*R_T[0], expected], rtol=1e-6)


def _oracle(q_tm1, q_t, r_t, config):
    """Plain Python, row by row, from the paper's text."""
    rows = []
    for now, following, reward in zip(q_tm1, q_t, r_t, strict=True):
        given = [index for index in range(4) if reward[index] > 0]
        allowed = range(min(given), max(given) + 1) if config.best_triage_over == "appropriate" else range(4)
        best, best_next = max(now[index] for index in allowed), max(following[index] for index in allowed)
        if config.ask_query == "or":
            ask = 1 - best * (1 - best_next)  # 1 - P(T and not T')
        else:
            ask = (1 - best) * (1 - (1 - best_next) * (1 - following[4]))
        rows.append([*reward, ask])
    return np.array(rows)


@pytest.mark.parametrize("query", ["or", "and"])
@pytest.mark.parametrize("over", ["all", "appropriate"])
def test_targets_agree_with_a_naive_oracle(query, over):
    generator = np.random.default_rng(3)
    q_tm1, q_t = generator.random([200, 5], np.float32), generator.random([200, 5], np.float32)
    counts = generator.multinomial(3, [0.25] * 4, 200)
    r_t = (counts / counts.max(axis=1, keepdims=True)).astype(np.float32)
    config = TargetConfig(ask_query=query, best_triage_over=over)
    result = targets.td_targets(tf.constant(q_tm1), tf.constant(q_t), tf.constant(r_t), config)
    np.testing.assert_allclose(result, _oracle(q_tm1, q_t, r_t, config), atol=1e-6)


def test_no_gradient_flows_through_the_targets():
    q_tm1, q_t = tf.constant(Q_TM1), tf.constant(Q_T)
    with tf.GradientTape() as tape:
        tape.watch([q_tm1, q_t])
        total = tf.reduce_sum(targets.td_targets(q_tm1, q_t, tf.constant(R_T), TargetConfig()))
    assert tape.gradient(total, [q_tm1, q_t]) == [None, None]


def test_loss_leaves_out_ask_after_a_triage_only_when_the_successor_counts_where_asking_was_taken():
    actions = tf.constant([Action.GREEN, Action.ASK], tf.int32)
    every = np.ones([2, 5])
    masked = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
    for mode, expected in (("counterfactual", every), ("same_state", every), ("taken_only", masked)):
        config = dataclasses.replace(TargetConfig(), ask_successor=mode)
        np.testing.assert_array_equal(targets.loss_weights(actions, config), expected)


def test_priority_is_the_absolute_value_of_the_mean_signed_error_over_triage_decisions():
    q = tf.constant([[0.9, 0.5, 0.5, 0.1, 0.0], [0.8, 0.6, 0.4, 0.2, 0.0]])
    reward = tf.constant([[0.5, 0.5, 0.5, 0.5], [1.0, 0.0, 0.0, 0.0]])
    # Row 0: (-.4 + 0 + 0 + .4) / 4 = 0: errors of opposite sign cancel, ask has no part.
    # Row 1: (.2 - .6 - .4 - .2) / 4 = -.25.
    np.testing.assert_allclose(targets.priority(q, reward), [0.0, 0.25], atol=1e-6)


def test_probability_targets_say_what_is_appropriate_and_what_is_safe():
    # {Red, Red, Green}: all from Red to Green is appropriate, and safe; {Yellow}: Red is safe, Yellow both.
    result = targets.probability_targets(tf.constant([[1.0, 0.0, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0]]))
    np.testing.assert_array_equal(result, [[1, 1, 1, 0, 1, 1, 1, 0], [0, 1, 0, 0, 1, 1, 0, 0]])


def test_a_probability_is_learned_in_part_from_what_it_is_in_the_next_state():
    outputs_t = np.full([1, LEARNED_OUTPUTS], 0.5, np.float32)
    outputs_t[0, NUM_ACTIONS:WITH_PROBABILITIES] = [0.2, 0.8, 0.6, 0.0, 0.4, 1.0, 0.6, 0.2]
    reward = tf.constant([[0.0, 1.0, 0.0, 0.0]])  # {Yellow}: appropriate 0 1 0 0, safe 1 1 0 0
    result = targets.probability_td_targets(tf.constant(outputs_t), reward, 0.25)
    # A quarter of the probability in s', three quarters of the truth.
    np.testing.assert_allclose(result, [[0.05, 0.95, 0.15, 0.0, 0.85, 1.0, 0.15, 0.05]], atol=1e-6)
    alone = targets.probability_td_targets(tf.constant(outputs_t), reward, 0.0)
    np.testing.assert_array_equal(alone, targets.probability_targets(reward))

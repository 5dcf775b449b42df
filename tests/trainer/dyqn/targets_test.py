import numpy as np
import pytest
import tensorflow as tf

from trainer.config import TargetConfig
from trainer.dyqn import targets
from trainer.graph.rewards import counterfactual_reward

# Different Q-values in s and s', so that mistaking one for the other shows. Columns: Red, Yellow, Green, Blue, ask.
Q_TM1 = [[0.2, 0.6, 0.5, 0.9, 0.5]]
Q_T = [[0.3, 0.8, 0.4, 0.7, 0.25]]
R_T = [[0.5, 0.0, 1.0, 0.0]]  # {Red, Green, Green}: all from Red to Green are appropriate


@pytest.mark.parametrize(
    ("query", "over", "expected"),
    [
        # Q_m(s) = 0.9 (Blue), Q_m(s') = 0.8 (Yellow): (1 - 0.9) + 0.9 * 0.8 = 0.82
        ("or", "all", 0.82),
        # Q_m(s) = 0.6 (Yellow), Q_m(s') = 0.8 (Yellow): (1 - 0.6) + 0.6 * 0.8 = 0.88
        ("or", "appropriate", 0.88),
        # (1 - 0.9) * (0.8 + (1 - 0.8) * 0.25) = 0.1 * 0.85 = 0.085
        ("and", "all", 0.085),
        # (1 - 0.6) * (0.8 + (1 - 0.8) * 0.25) = 0.4 * 0.85 = 0.34
        ("and", "appropriate", 0.34),
    ],
)
def test_targets_worked_out_by_hand(query, over, expected):
    config = TargetConfig(ask_query=query, best_triage_over=over)
    result = targets.td_targets(tf.constant(Q_TM1), tf.constant(Q_T), tf.constant(R_T), config)
    np.testing.assert_allclose(result[0], [*R_T[0], expected], rtol=1e-6)


def test_no_gradient_flows_through_the_targets():
    q_tm1, q_t = tf.constant(Q_TM1), tf.constant(Q_T)
    with tf.GradientTape() as tape:
        tape.watch([q_tm1, q_t])
        total = tf.reduce_sum(targets.td_targets(q_tm1, q_t, tf.constant(R_T), TargetConfig()))
    assert tape.gradient(total, [q_tm1, q_t]) == [None, None]


def test_priority_is_the_absolute_value_of_the_mean_signed_error_over_triage_decisions():
    q = tf.constant([[0.9, 0.5, 0.5, 0.1, 0.0], [0.8, 0.6, 0.4, 0.2, 0.0]])
    reward = tf.constant([[0.5, 0.5, 0.5, 0.5], [1.0, 0.0, 0.0, 0.0]])
    # Row 0: (-.4 + 0 + 0 + .4) / 4 = 0: errors of opposite sign cancel, ask has no part.
    # Row 1: (.2 - .6 - .4 - .2) / 4 = -.25.
    np.testing.assert_allclose(targets.priority(q, reward), [0.0, 0.25], atol=1e-6)


def test_asking_is_worth_the_next_state_less_the_price():
    q_t = tf.constant([[0.3, 0.8, 0.4, 0.7, 0.25], [0.3, 0.8, 0.4, 0.7, 0.85], [0.01] * 5])
    # The best decision, or asking again; never below 0.
    np.testing.assert_allclose(targets.value_target(q_t, 0.05), [0.75, 0.8, 0.0], atol=1e-6)


@pytest.mark.parametrize(
    ("counts", "safe", "less_urgent"),  # Yellow, Green, Blue are safe; all were less urgent than Red, Yellow, Green
    [
        ([3, 0, 0, 0], [0, 0, 0], [0, 0, 0]),
        ([0, 2, 1, 0], [1, 1, 0], [1, 0, 0]),
        ([1, 0, 0, 1], [1, 1, 1], [0, 0, 0]),
        ([0, 0, 1, 2], [1, 1, 1], [1, 1, 0]),
        ([0, 0, 0, 3], [1, 1, 1], [1, 1, 1]),
    ],
)
def test_the_truth_of_each_cumulative_probability(counts, safe, less_urgent):
    truths = targets.cumulative_truths(counterfactual_reward(tf.constant([counts])))
    np.testing.assert_array_equal(truths, [[*safe, *less_urgent]])


def test_a_probability_is_learned_in_part_from_what_it_is_in_the_next_state():
    together_t = tf.constant([[0.8, 0.6, 0.2, 0.4, 0.2, 0.0]])
    reward = tf.constant([[0.0, 1.0, 0.0, 0.0]])  # {Yellow}: Yellow is safe, and all are less urgent than Red
    # A quarter of the probability in s', three quarters of the truth.
    result = targets.cumulative_targets(together_t, reward, 0.25)
    np.testing.assert_allclose(result, [[0.95, 0.15, 0.05, 0.85, 0.05, 0.0]], atol=1e-6)

"""The choice of an action, ties and forced triage included."""

import pytest
import tensorflow as tf

from trainer.dyqn.decision import anything_known, best_triage, decide

KNOWN = tf.constant([True])


@pytest.mark.parametrize(
    ("q_values", "forced", "action", "triage"),
    [
        ([0.1, 0.9, 0.2, 0.3, 0.4], False, 1, 1),
        ([0.1, 0.3, 0.2, 0.3, 0.4], False, 4, 1),
        ([0.1, 0.2, 0.2, 0.3, 0.4], True, 3, 3),
        ([0.4, 0.4, 0.4, 0.4, 0.4], False, 0, 0),
        ([0.0, 0.4, 0.4, 0.4, 0.0], False, 1, 1),
        ([0.0, 0.0, 0.0, 0.4, 0.4], False, 3, 3),
        ([0.0, 0.0, 0.0, 0.0, 0.4], True, 0, 0),
    ],
    ids=["triage", "ask", "forced", "all equal", "more urgent first", "triage before ask", "forced tie"],
)
def test_a_row_of_q_values_leads_to_its_best_action(q_values, forced, action, triage):
    batch = tf.constant([q_values])
    assert decide(batch, tf.constant([forced]), KNOWN).numpy().tolist() == [action]
    assert best_triage(batch).numpy().tolist() == [triage]


def test_rows_are_forced_one_by_one():
    q_values = tf.constant([[0.1, 0.2, 0.3, 0.0, 0.9]] * 2)
    actions = decide(q_values, tf.constant([False, True]), tf.constant([True, True]))
    assert actions.numpy().tolist() == [4, 2]
    assert actions.dtype == tf.int32


def test_an_empty_batch_has_no_actions():
    assert decide(tf.zeros([0, 5]), tf.zeros([0], tf.bool), tf.zeros([0], tf.bool)).shape == (0,)


def test_where_nothing_is_known_the_answer_is_ask_even_if_forced():
    states = tf.constant([[0.0, -1.0], [0.0, 0.0], [0.0, 0.0]])
    assert anything_known(states).numpy().tolist() == [True, False, False]
    red = tf.constant([[0.9, 0.1, 0.1, 0.1, 0.1]] * 3)
    actions = decide(red, tf.constant([False, False, True]), anything_known(states))
    assert actions.numpy().tolist() == [0, 4, 4]

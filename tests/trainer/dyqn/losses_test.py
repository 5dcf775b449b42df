import numpy as np
import pytest
import tensorflow as tf

from trainer.dyqn import losses


def test_loss_is_the_mean_over_the_batch_for_each_action():
    never, half, always = -100.0, 0.0, 100.0  # logits of Q = 0, .5 and 1
    logits = tf.constant([[never, half, never, never, always], [half, half, never, never, never]])
    target = tf.constant([[1.0, 0.0, 0.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.0, 0.5]])
    # Red: (1 + 0) / 2; Yellow: (.25 + .25) / 2; ask: (1 + .25) / 2.
    result = losses.squared_loss(logits, target, tf.ones([2, 5]))
    np.testing.assert_allclose(result, [0.5, 0.25, 0.0, 0.0, 0.625])


def test_cross_entropy_is_the_mean_over_the_batch_for_each_output():
    logits = tf.constant([[0.0, np.log(3.0)], [0.0, np.log(3.0)]], tf.float32)  # .5 and .75
    target = tf.constant([[1.0, 0.5], [0.0, 1.0]])
    # First output: log 2 in both rows. Second: (-.5 log .75 - .5 log .25 - log .75) / 2.
    expected = [np.log(2), -(1.5 * np.log(0.75) + 0.5 * np.log(0.25)) / 2]
    np.testing.assert_allclose(losses.cross_entropy_loss(logits, target, tf.ones([2, 2])), expected, rtol=1e-6)
    weights = tf.constant([[1.0, 0.0], [0.0, 1.0]])  # what is left out counts as a row without a loss
    expected = [np.log(2) / 2, -np.log(0.75) / 2]
    np.testing.assert_allclose(losses.cross_entropy_loss(logits, target, weights), expected, rtol=1e-6)


def test_the_gradient_of_cross_entropy_is_the_error_even_if_a_sigmoid_is_saturated():
    logits = tf.constant([[-12.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = losses.cross_entropy_loss(logits, tf.constant([[1.0]]), tf.ones([1, 1]))
    assert float(tape.gradient(loss, logits)[0, 0]) == pytest.approx(-1.0, abs=1e-4)


def test_probabilities_before_a_question_are_the_mean_of_those_after_it():
    # After a yes .9, after a no .1: .3 on average if a yes is .25 likely. The cross-entropy is lowest where it is so.
    logit = float(np.log(9.0))
    after = tf.reshape(tf.constant([logit, -logit]), [2, 1, 1, 1])

    def loss(likely, before):
        return float(losses.coherence_loss(after, tf.constant([likely]), tf.constant([[before]])))

    assert loss(0.25, 0.3) == pytest.approx(-(0.3 * np.log(0.3) + 0.7 * np.log(0.7)), rel=1e-5)
    assert loss(0.25, 0.5) == pytest.approx(-0.5 * np.log(0.3 * 0.7), rel=1e-5)
    assert loss(0.0, 0.1) == pytest.approx(-(0.1 * np.log(0.1) + 0.9 * np.log(0.9)), rel=1e-5)  # the no alone


def test_coherence_is_summed_over_networks_and_averaged_over_the_batch():
    after = tf.zeros([2, 3, 5, 8])  # .5 everywhere
    loss = losses.coherence_loss(after, tf.fill([3], 0.4), tf.fill([3, 8], 0.5))
    assert float(loss) == pytest.approx(5 * 8 * np.log(2), rel=1e-5)

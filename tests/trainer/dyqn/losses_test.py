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

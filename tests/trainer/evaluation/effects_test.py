"""The effect of a piece of evidence is what leaving it out changes."""

import numpy as np
import pytest
import tensorflow as tf

from schemas.triage import NUM_ACTIONS
from trainer.evaluation.walk import effects, leave_one_out


def q_values(states):
    """Red: .25 with the first piece present, .75 with the third absent too; the others never change."""
    red = 0.25 * tf.nn.relu(states[:, :1]) + 0.5 * tf.nn.relu(-states[:, 2:3])
    return tf.concat([red, tf.fill([len(states), NUM_ACTIONS - 1], 0.5)], axis=1)


def with_probabilities(states):
    """The Q-value of asking depends on the second piece alone, and all eight probabilities on the first."""
    likely = tf.repeat(0.5 + 0.25 * states[:, :1], 8, axis=1)
    return tf.concat([tf.repeat(states[:, 1:2], NUM_ACTIONS, axis=1), likely], axis=1)


def test_a_piece_is_left_out_alone():
    here, without = leave_one_out([1, -3, 2], 3, q_values)
    assert here[0] == 0.75
    assert without[:, 0].tolist() == [0.5, 0.25, 0.75]


def test_without_probabilities_the_effect_is_on_the_values_of_the_four_decisions():
    # One of four values changes: by .25 without the first piece, by .5 without the absence, by nothing without fever.
    assert effects([1, -3, 2], 3, q_values) == pytest.approx([0.25 / 4, 0.5 / 4, 0.0])


def test_with_probabilities_the_effect_is_on_them_and_not_on_asking():
    assert effects([1, 2], 3, with_probabilities) == pytest.approx([0.25, 0.0])
    assert effects(np.array([-1], np.int16), 3, with_probabilities) == pytest.approx([0.25])

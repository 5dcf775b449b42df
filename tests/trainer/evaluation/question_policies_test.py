import numpy as np
import pytest
import tensorflow as tf

from trainer.evaluation.question_policies import card_policy, highest, random_policy, static_policy


def test_the_open_code_with_the_highest_score_is_asked():
    open_codes = np.array([[True, True, False], [True, False, False], [False] * 3])
    assert highest(np.array([[1.0, 2, 3]] * 3), open_codes).tolist() == [[1], [0], [-1]]


def test_static_asks_the_most_informative_piece_whatever_is_known(vignettes_of):
    # Code 1 in all four patients, code 2 in the two Red ones, code 3 in one of each kind.
    red, blue = ([1, 2, 3], [3, 0, 0, 0]), ([1, 3], [0, 0, 0, 2])
    policy = static_policy(vignettes_of([red, ([1, 2], [1, 0, 0, 0]), blue, ([1], [0, 0, 0, 1])]), 3)
    assert policy(np.float32([[0, 0, 0], [0, 0, 1]]), np.ones([2, 3], bool)).tolist() == [[1], [1]]


def test_random_asks_all_open_codes_alike_and_no_other():
    open_codes = np.array([[True, False, True]] * 1000)
    asked = random_policy(seed=0)(np.zeros(open_codes.shape, np.float32), open_codes)
    assert np.bincount(asked[:, 0], minlength=3) == pytest.approx([500, 0, 500], abs=60)


class Graph:
    """Thinks that code 1 is present in every tenth patient, and the others in half."""

    def likely_on_card(self, states):
        return tf.constant([[0.5, 0.1, 0.5]] * len(states))


def test_on_a_card_the_network_judges_both_answers_to_each_open_code():
    """Code 0 moves nothing; code 1, which is rare, moves P(Red is safe) a lot; code 2 moves it a bit, often."""

    def network(states):
        red = 0.5 + 0.4 * tf.nn.relu(states[:, 1]) + 0.2 * states[:, 2]
        half = tf.zeros_like(red) + 0.5
        return {"appropriate": tf.stack([half] * 4, axis=1), "safe": tf.stack([red, half, half, half], axis=1)}

    open_codes = np.array([[True, True, True], [True, True, False]])
    asked = card_policy(Graph(), network)(np.zeros([2, 3], np.float32), open_codes)
    # Expected divergences of P(Red is safe) from .5: none of code 0, .1 D(.9) of code 1, .5 (D(.7) + D(.3)) of code 2.
    divergence = lambda share: share * np.log(share / 0.5) + (1 - share) * np.log((1 - share) / 0.5)  # noqa: E731
    assert 0 < 0.1 * divergence(0.9) < 0.5 * (divergence(0.7) + divergence(0.3))
    assert asked.tolist() == [[2], [1]]

import numpy as np
import pytest
import tensorflow as tf

from trainer.evaluation.options import NAIVE_BAYES, PREVALENCE, STATIC, UNCERTAINTY
from trainer.evaluation.question_policies import card_policy, frequencies, simple_policies
from trainer.interviews.play import highest


@pytest.fixture(scope="module")
def known(vignettes_of):
    """Code 1 in all four patients, code 2 in the two Red ones, code 3 in one of each kind."""
    red, blue = ([1, 2, 3], [3, 0, 0, 0]), ([1, 3], [0, 0, 0, 2])
    return frequencies(vignettes_of([red, ([1, 2], [1, 0, 0, 0]), blue, ([1], [0, 0, 0, 1])]), 3)


@pytest.fixture(scope="module")
def policies(known):
    return simple_policies(known, seed=0)


def _first(policy, states):
    states = np.array(states, np.float32)
    asked = policy(states, np.ones(states.shape, bool))
    assert asked.shape == (len(states), 1)
    return asked[:, 0].tolist()


def test_the_open_code_with_the_highest_score_is_asked():
    open_codes = np.array([[True, True, False], [True, False, False], [False] * 3])
    assert highest(np.array([[1.0, 2, 3]] * 3), open_codes).tolist() == [[1], [0], [-1]]


def test_frequencies_are_smoothed_shares_of_patients_by_decision(known):
    assert known.decisions.tolist() == [0.5, 0, 0, 0.5]
    # Two Red patients, both with code 2: (2 + 2 * overall) / (2 + 2), where overall is (2 + .5) / (4 + 1).
    assert known.present[0, 1] == pytest.approx((2 + 2 * 0.5) / 4)
    assert known.present[3, 1] == pytest.approx((0 + 2 * 0.5) / 4)


def test_prevalence_asks_the_most_common_piece_and_static_the_most_informative_one(policies):
    assert _first(policies[PREVALENCE], [[0, 0, 0]]) == [0]
    assert _first(policies[STATIC], [[0, 0, 0], [0, 0, 1]]) == [1, 1]  # whatever is known


def test_uncertainty_asks_what_is_hardest_to_predict(policies):
    # Of all patients half have 2, as many 3, and all 1. Who has 2 is probably Red, and 3 is even among them.
    assert _first(policies[UNCERTAINTY], [[0, 1, 0]]) == [2]


def test_naive_bayes_asks_what_changes_the_decision(policies):
    assert _first(policies[NAIVE_BAYES], [[0, 0, 0]]) == [1]


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

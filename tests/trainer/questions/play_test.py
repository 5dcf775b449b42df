import numpy as np
import pytest
import tensorflow as tf

from trainer.dyqn.decision import Dial
from trainer.questions.patients import Patients
from trainer.questions.play import NOTHING, play


@pytest.fixture(scope="module")
def patients():
    """Two patients over four codes: the first lacks code 1 and has 2; the second answers 1 alone."""
    answers = np.array([[1, -1, 1, 0], [1, 1, 0, 0]], np.int8)
    return Patients(np.eye(4, dtype=bool)[[0, 0]], answers, np.array([[1, 0, 0, 0], [0, 0, 0, 1]]))


def network(states):
    """Says P(Red is appropriate) = .6 and P(Blue is) = .5, and shifts towards Blue where code 1 is present."""
    blue = 0.5 + 0.3 * tf.nn.relu(states[:, 1])
    zeros = tf.zeros_like(blue)
    appropriate = tf.stack([zeros + 0.6, zeros, zeros, blue], axis=1)
    return tf.concat([tf.zeros([len(states), 5]), appropriate, tf.ones([len(states), 4])], axis=1)


def _may_ask(states):
    return states == 0


def _in_order(states, open_codes):
    return -np.broadcast_to(np.arange(states.shape[1]), states.shape).astype(float)


def test_the_first_open_code_is_asked_and_its_answer_known(patients):
    interviews = play(patients, network, _may_ask, _in_order, 3, Dial())
    assert interviews.asked.tolist() == [[1, 1], [2, NOTHING], [NOTHING, NOTHING]]
    assert interviews.answers.tolist() == [[-1, 1], [1, 0], [0, 0]]
    assert interviews.outputs.shape == (4, 2, 13)
    # The second patient's decision changes with the answer; what nobody can answer changes nothing.
    assert interviews.decisions(Dial()).tolist() == [[0, 0], [0, 3], [0, 3], [0, 3]]


def test_what_the_relations_settle_is_not_asked(patients):
    settled = lambda states: (states == 0) & tf.constant([True, False, True, True])  # noqa: E731
    assert play(patients, network, settled, _in_order, 1, Dial()).asked.tolist() == [[2, NOTHING]]


def test_a_clairvoyant_policy_asks_what_makes_the_decision_right():
    """Both codes are present, and only the second one leads to Blue, which is right."""
    patients = Patients(np.eye(4, dtype=bool)[[0]], np.array([[1, 1, 1, 0]], np.int8), np.array([[0, 0, 0, 1]]))
    interviews = play(patients, network, lambda states: states == 0, None, 1, Dial())
    assert interviews.asked.tolist() == [[1]]
    assert interviews.decisions(Dial()).tolist() == [[0], [3]]

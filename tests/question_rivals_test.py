"""benchmarks/question_rivals.py: each rival learns what to ask, and interviews are compared at equal cost."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.question_rivals import Judge, aaco, after, compare, learned_rival
from trainer.interviews.patients import Patients
from trainer.interviews.play import Interviews


def network(states):
    """Knows whether a patient is Red or Blue: after complaint 0 from answer 2, after complaint 1 from answer 3."""
    red = 0.5 + 0.45 * tf.where(states[:, :1] > 0, states[:, 2:3], states[:, 3:4])
    no, yes = tf.zeros_like(red), tf.ones_like(red)
    appropriate, safe = tf.concat([red, no, no, 1 - red], axis=1), tf.concat([yes, *[1 - red] * 3], axis=1)
    return {"q": tf.concat([(appropriate + safe) / 2, no], axis=1), "appropriate": appropriate, "safe": safe}


@pytest.fixture(scope="module")
def patients():
    """512 with one of two complaints; four findings are independent of it and of one another."""
    generator = np.random.default_rng(0)
    answers = generator.choice([-1, 1], [512, 6])
    answers[:, 1] = -answers[:, 0]
    red = np.where(answers[:, 0] > 0, answers[:, 2], answers[:, 3]) > 0
    counts = np.where(red[:, np.newaxis], [3, 0, 0, 0], [0, 0, 0, 3])
    return Patients(np.tile(np.arange(6) < 2, [512, 1]), answers.astype(np.int8), counts)


@pytest.mark.parametrize("name", ["dime", "gdfs", "aaco"])
def test_a_rival_asks_what_the_decision_depends_on_after_each_complaint(name, patients):
    judge = Judge(network, safety_weight=1.0)
    if name == "aaco":
        policy = aaco(judge, patients)
    else:
        policy = learned_rival(name, judge, patients, lambda states: states == 0, turns=2, batches=60, seed=0)
    states = np.array([[1, -1, 0, 0, 0, 0], [-1, 1, 0, 0, 0, 0]], np.float32)
    assert policy(states, states == 0).tolist() == [[2], [3]]
    states[:, 2:4] = 1
    assert np.isin(policy(states, states == 0), [4, 5]).all()


def test_a_loss_is_the_mean_over_the_truths_in_bits():
    judge = Judge(network, safety_weight=1.0)
    now = judge.probabilities(tf.constant([[1.0, -1, 0, 0, 0, 0]]))
    # Of eight truths, those of Red and Blue and that Yellow, Green and Blue are safe cost a bit each, others nothing.
    red = np.array([[1, 0, 0, 0, 1, 0, 0, 0]], np.float32)
    assert judge.loss(now, red).numpy() == pytest.approx([5 / 8], abs=1e-4)


@pytest.fixture
def interviews():
    """Of two patients, Red and Blue: in three turns one policy asks 3 + 1 + 1 codes, the other one 1 + 1 + 1."""
    revealed = np.array([[[1, 2, 3], [1, 2, 3]], [[4, 0, 0], [4, 0, 0]], [[5, 0, 0], [5, 0, 0]]], np.int32)
    worth = [[(red + 1) / 2, *[(1 - red) / 2] * 2, 1 - red, 0] for red in (0.2, 0.2, 0.6, 0.6)]
    q = np.repeat(np.float32(worth)[:, np.newaxis], 2, axis=1)
    grouped = Interviews({"q": q}, revealed, np.zeros([4, 2], bool))
    return {"learned": grouped, "single": grouped._replace(revealed=revealed[:, :, :1])}


def test_an_interview_has_cost_the_turns_that_ask_no_more_codes(interviews):
    assert [after(interviews["learned"], number, "codes").tolist() for number in (2, 3, 4)] == [[0, 0], [1, 1], [2, 2]]
    assert after(interviews["single"], 3, "codes").tolist() == [3, 3]
    assert after(interviews["learned"], 3, "turns").tolist() == [3, 3]


def test_policies_are_compared_patient_by_patient_at_equal_cost(interviews):
    found = compare(interviews, np.array([[3, 0, 0, 0], [0, 0, 0, 3]]), seed=0)
    # After three turns both say Red; after three codes, the one with a group has had one turn and says Blue.
    assert found["turns"][3]["single"]["safety_difference"].mean == 0
    assert found["codes"][3]["learned"]["safety"].mean == 0.5
    assert found["codes"][3]["single"]["safety"].mean == 1
    assert found["codes"][3]["single"]["safety_difference"].mean == 0.5

import numpy as np
import pytest
import tensorflow as tf

from schemas.triage import Action
from trainer.graph.decide import NEUTRAL, OperatingPoint
from trainer.interviews.patients import Patients
from trainer.interviews.play import Interviews, interview
from triage_runtime.promise import HANDED_OVER


@pytest.fixture(scope="module")
def patients():
    """Two patients over four codes: the first lacks code 1 and has 2; the second answers 1 alone."""
    answers = np.array([[1, -1, 1, 0], [1, 1, 0, 0]], np.int8)
    return Patients(np.eye(4, dtype=bool)[[0, 0]], answers, np.array([[1, 0, 0, 0], [0, 0, 0, 1]]))


def network(states):
    """Red is worth .6, and Blue .5, or .8 where code 1 is present; asking is worth nothing."""
    blue = 0.5 + 0.3 * tf.nn.relu(states[:, 1])
    zeros = tf.zeros_like(blue)
    return {"q": tf.stack([zeros + 0.6, zeros, zeros, blue, zeros], axis=1)}


def _may_ask(states):
    return states == 0


def _in_order(states, open_codes):
    return np.where(open_codes.any(axis=1), open_codes.argmax(axis=1), -1)[:, np.newaxis]


def test_the_first_open_code_is_asked_and_its_answer_known(patients):
    interviews = interview(patients, network, _may_ask, _in_order, 3)
    assert interviews.revealed.tolist() == [[[-2], [2]], [[3], [0]], [[0], [0]]]
    assert interviews.heads["q"].shape == (4, 2, 5)
    # The second patient's decision changes with the answer; what nobody can answer changes nothing.
    assert interviews.decisions().tolist() == [[0, 0], [0, 3], [0, 3], [0, 3]]


def test_an_opening_takes_the_first_question_and_makes_several_pieces_known():
    answers = np.array([[1, -1, 1, 1]] * 2, np.int8)
    patients = Patients(np.array([[1, 0, 0, 0], [1, 0, 1, 0]], bool), answers, np.array([[1, 0, 0, 0]] * 2))

    def opening(states, answers):
        """The opening asks about codes 2 and 3; of the second patient, 2 is known."""
        return tf.where(states[:, 2:3] == 0, tf.constant([[3, 4]]), 0)

    interviews = interview(patients, network, _may_ask, _in_order, 2, opening=opening)
    assert interviews.revealed.tolist() == [[[3, 4, 0], [0, 0, -2]], [[0, 0, -2], [0, 0, 4]]]
    states = interviews.states(patients).tolist()
    assert [each[0] for each in states] == [[1, 0, 0, 0], [1, 0, 1, 1], [1, -1, 1, 1]]
    assert [each[1] for each in states] == [[1, 0, 1, 0], [1, -1, 1, 0], [1, -1, 1, 1]]
    assert interviews.ends(OperatingPoint(0.99)).tolist() == [2, 2]
    # Sure of Blue from the start, the second patient's interview ends, and the first one's does not before the opening.
    blue = patients._replace(known=patients.known | np.eye(4, dtype=bool)[1])
    sure = interview(blue, lambda states: network(tf.ones_like(states)), _may_ask, _in_order, 2, opening=opening)
    assert sure.ends(NEUTRAL).tolist() == [1, 0]


def _flags(cells):
    """Red flags are open about `cells` that are neither known nor not to be asked."""
    return lambda states, not_to_ask: (states == 0) & ~not_to_ask & tf.constant([cell in cells for cell in range(4)])


def test_an_interview_ends_with_red_where_the_agent_is_sure_of_it(patients):
    """With a floor of .7 it keeps asking, until the second patient's decision is Blue, worth .8."""
    interviews = interview(patients, network, _may_ask, _in_order, 3, _flags({1, 2, 3}))
    assert interviews.ends(NEUTRAL).tolist() == [0, 0]
    assert interviews.ends(OperatingPoint(0.7)).tolist() == [2, 1]


def test_an_interview_ends_where_the_agent_is_sure_unless_a_red_flag_is_open():
    """The agent is sure of Blue from the start; two codes are open."""
    patients = Patients(np.eye(4, dtype=bool)[[1]], np.array([[1, 1, 1, 0]], np.int8), np.array([[0, 0, 0, 1]]))
    for cells, ends in ((set(), 0), ({0, 2}, 2)):
        interviews = interview(patients, network, _may_ask, _in_order, 3, _flags(cells))
        assert interviews.ends(NEUTRAL).tolist() == [ends]


def test_an_interview_ends_where_going_on_is_worth_no_more_than_the_decision(patients):
    """Q(ask) is .7: more than .6, the value of Red, and less than .8, that of Blue after a yes to code 1."""

    def asking(states):
        return {"q": network(states)["q"] + tf.one_hot([Action.ASK], 5) * 0.7}

    interviews = interview(patients, asking, _may_ask, _in_order, 3)
    assert interviews.ends(NEUTRAL).tolist() == [2, 1]  # the first patient has nothing left to answer after two


def _said(moments):
    """Heads of one patient: what Red and Green are worth, also how likely they are right, and if asking is more."""
    decisions = np.float32([[[red, 0, green, 0]] for red, green, _ in moments])
    asking = np.float32([[[2 * asks]] for _, _, asks in moments])
    return {"q": np.concatenate([decisions, asking], axis=2), "appropriate": decisions}


@pytest.mark.parametrize(
    ("moments", "flagged", "without", "handed"),
    [
        # Green while Red is possible: a person takes over, but not while a red flag is still asked about.
        ([(0.2, 0.9, 0), (0.9, 0.1, 0), (0.9, 0.1, 0)], [0, 0, 0], Action.GREEN, HANDED_OVER),
        ([(0.2, 0.9, 0), (0.9, 0.1, 0), (0.9, 0.1, 0)], [1, 0, 0], Action.RED, Action.RED),
        # While it asks, nothing is handed over: the next answer may help.
        ([(0.2, 0.9, 1), (0.1, 0.9, 0), (0.2, 0.9, 0)], [0, 0, 0], Action.GREEN, Action.GREEN),
        # After the last question it has to decide, though it would ask.
        ([(0.2, 0.9, 1), (0.2, 0.9, 1), (0.2, 0.9, 1)], [0, 0, 0], Action.GREEN, HANDED_OVER),
        ([(0.9, 0.1, 0)] * 3, [0, 0, 0], Action.RED, Action.RED),
    ],
)
def test_an_interview_is_handed_over_where_the_server_would_do_so(patients, moments, flagged, without, handed):
    interviews = Interviews(_said(moments), np.ones([2, 1, 1], np.int32), np.array(flagged, bool)[:, np.newaxis])
    left = [
        interviews.leave(patients, OperatingPoint(hand_over_from=red), None).decisions.tolist()
        for red in (None, 0.15, 0.3)
    ]
    assert left == [[without], [handed], [without]]


def test_an_agent_that_asks_on_with_nothing_left_to_ask_hands_over(patients):
    heads = _said([(0.2, 0.9, 1), (0.9, 0.1, 0)])
    interviews = Interviews(heads, np.zeros([1, 1, 1], np.int32), np.zeros([2, 1], bool))
    left = interviews.leave(patients, OperatingPoint(hand_over_from=0.15), None)
    assert (left.decisions.tolist(), left.questions.tolist()) == ([HANDED_OVER], [0])

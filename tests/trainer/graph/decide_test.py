"""The choice of an action, ties and forced triage included."""

import numpy as np
import pytest
import tensorflow as tf

from trainer.graph.decide import (
    ASK_POINTS,
    NEUTRAL,
    PRICES,
    SAFETY_SHARES,
    OperatingPoint,
    anything_known,
    ask_value,
    best_triage,
    decide,
    q_values,
    utilities,
)

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


def test_where_nothing_is_known_the_answer_is_ask_even_if_forced():
    states = tf.constant([[0.0, -1.0], [0.0, 0.0], [0.0, 0.0]])
    assert anything_known(states).numpy().tolist() == [True, False, False]
    red = tf.constant([[0.9, 0.1, 0.1, 0.1, 0.1]] * 3)
    actions = decide(red, tf.constant([False, False, True]), anything_known(states))
    assert actions.numpy().tolist() == [0, 4, 4]


# Appropriate: Green; safe: Red above all; Q(ask) is .9 at every operating point.
OUTPUTS = [0.9, 0.1, 0.1, 0.1, 0.95, *(0.1, 0.3, 0.8, 0.2), *(1.0, 0.9, 0.8, 0.3), *[0.9] * len(ASK_POINTS), 0.0]


def _row(ask, appropriate, safe, fall=0.0):
    return tf.constant([[0.5, 0.5, 0.5, 0.5, 0.5, *appropriate, *safe, *[ask] * len(ASK_POINTS), fall]])


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        (0.0, [0.1, 0.3, 0.8, 0.2]),
        # (P(appropriate) + w P(safe)) / (1 + w)
        (1.0, [1.1 / 2, 1.2 / 2, 1.6 / 2, 0.5 / 2]),
        (3.0, [3.1 / 4, 3.0 / 4, 3.2 / 4, 1.1 / 4]),
    ],
)
def test_merits_worked_out_by_hand(weight, expected):
    assert utilities(tf.constant([OUTPUTS]), OperatingPoint(weight)).numpy()[0].tolist() == pytest.approx(
        expected, abs=1e-6
    )


def test_the_safety_weight_moves_the_decision_and_not_the_q_values():
    batch = tf.constant([OUTPUTS])
    # Green has .8 + .8 w, Red .1 + w: equal at w = 3.5.
    assert [int(best_triage(batch, OperatingPoint(weight))[0]) for weight in (0.0, 3.4, 3.6)] == [2, 2, 0]
    # The rewards alone would triage Red. The utility of Green is .8 at weights 0 and 1, below Q(ask).
    assert decide(batch, tf.constant([False]), KNOWN).numpy().tolist() == [4]
    assert decide(batch, tf.constant([True]), KNOWN).numpy().tolist() == [2]


def test_q_values_alone_decide_where_there_are_no_probabilities():
    q_values = tf.constant([[0.1, 0.9, 0.2, 0.3, 0.95]])
    for point in (NEUTRAL, OperatingPoint(30.0, 0.01)):
        assert utilities(q_values, point).numpy()[0].tolist() == pytest.approx([0.1, 0.9, 0.2, 0.3])
        assert decide(q_values, tf.constant([False]), KNOWN, point).numpy().tolist() == [4]


@pytest.mark.parametrize(
    ("ask", "sure_enough", "known", "action"),
    [
        (0.76, None, True, 4),  # Q(ask) is above the utility of Green, .75
        (0.75, None, True, 2),  # of equal values triage wins
        (0.1, 0.75, True, 2),  # the utility of Green, .75, is reached
        (0.76, 0.75, True, 4),  # but Q(ask) is above it
        (0.9, 0.76, True, 4),
        (0.1, 0.76, True, 4),  # whatever Q(ask) is
        (0.1, None, True, 2),
        (0.9, 0.75, False, 4),  # nothing is known
        (0.1, 0.75, False, 4),
    ],
)
def test_asking_ends_only_when_the_agent_is_sure_enough(ask, sure_enough, known, action):
    batch = _row(ask, [0.0, 0.25, 0.75, 0.0], [1.0, 1.0, 0.75, 0.0])
    chosen = decide(batch, tf.constant([False]), tf.constant([known]), OperatingPoint(0.0, sure_enough))
    assert chosen.numpy().tolist() == [action]
    forced = decide(batch, tf.constant([True]), tf.constant([known]), OperatingPoint(0.0, sure_enough))
    assert forced.numpy().tolist() == [2 if known else 4]


def test_what_is_known_lowers_the_threshold_and_not_q_ask():
    truths = [0.0, 0.25, 0.75, 0.0], [1.0, 1.0, 0.75, 0.0]  # the utility of Green is .75
    for ask, fall, action in ((0.1, 0.04, 4), (0.1, 0.05, 2), (0.76, 0.05, 4)):  # the threshold is .76 and .75
        batch = _row(ask, *truths, fall)
        assert decide(batch, tf.constant([False]), KNOWN, OperatingPoint(0.0, 0.8)).numpy().tolist() == [action]


def test_the_q_value_of_ask_is_what_a_decision_must_be_worth():
    batch = _row(0.1, [0.0, 0.25, 0.75, 0.0], [1.0, 1.0, 0.75, 0.0], 0.05)
    for point, worth in ((OperatingPoint(0.0), 0.1), (OperatingPoint(0.0, 0.8), 0.75)):
        assert q_values(batch, point).numpy()[0].tolist() == pytest.approx([0.5] * 4 + [worth])


def test_equal_merits_go_to_the_more_urgent_decision():
    batch = _row(0.1, [0.0, 0.5, 0.5, 0.0], [1.0, 0.5, 0.5, 0.0])
    assert int(best_triage(batch, OperatingPoint(0.0))[0]) == 1
    assert int(best_triage(batch, OperatingPoint(1.0))[0]) == 0  # .5 for each of Red, Yellow and Green


def _asking(values):
    """Outputs with Q(ask) of each share and price, [S, P]."""
    return tf.constant([[0.5] * 13 + np.asarray(values).ravel().tolist()])


def test_q_ask_is_the_learned_one_at_each_operating_point():
    values = np.linspace(0.1, 0.9, len(ASK_POINTS)).reshape(len(SAFETY_SHARES), len(PRICES))
    for row, weight in enumerate((0.0, 1.0, 4.0)):  # w / (1 + w) is 0, .5 and .8
        for column, price in enumerate(PRICES):
            asked = float(ask_value(_asking(values), OperatingPoint(weight, price=price))[0])
            assert asked == pytest.approx(values[row, column], abs=1e-6)


def test_q_ask_is_interpolated_between_operating_points():
    values = np.zeros([len(SAFETY_SHARES), len(PRICES)])
    values[1, 2:4] = 0.6, 0.4  # weight 1, prices .004 and .008
    # Half way between the logarithms of .004 and .008.
    middle = 0.004 * 2**0.5
    assert float(ask_value(_asking(values), OperatingPoint(1.0, price=middle))[0]) == pytest.approx(0.5, abs=1e-6)
    # A weight of 1 / 3 has the share .25, half way between those of 0 and 1.
    assert float(ask_value(_asking(values), OperatingPoint(1 / 3, price=0.004))[0]) == pytest.approx(0.3, abs=1e-6)
    # A weight of 9 has the share .9, half way from .8 to 1, where a question brings nothing and costs its price.
    values[2, 2] = 0.7
    expected = (0.7 + 1 - 0.004) / 2
    assert float(ask_value(_asking(values), OperatingPoint(9.0, price=0.004))[0]) == pytest.approx(expected, abs=1e-6)
    # Beyond the learned prices the nearest one counts.
    values[1, 0] = 0.2
    assert float(ask_value(_asking(values), OperatingPoint(1.0, price=1e-5))[0]) == pytest.approx(0.2, abs=1e-6)

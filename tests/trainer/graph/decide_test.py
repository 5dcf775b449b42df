"""The choice of an action, ties and forced triage included."""

import pytest
import tensorflow as tf

from schemas.triage import Action
from trainer.graph.decide import OperatingPoint, anything_known, best_triage, decide, handed_over, with_floor

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


Q = [0.3, 0.4, 0.7, 0.2, 0.6]
"""Green is worth .7, asking .6."""


@pytest.mark.parametrize(
    ("floor", "known", "forced", "action"),
    [
        (None, True, False, Action.GREEN),
        (0.7, True, False, Action.GREEN),  # of equal values triage wins
        (0.71, True, False, Action.ASK),
        (0.71, True, True, Action.GREEN),
        (0.5, True, False, Action.GREEN),  # asking is worth more than that anyway
        (None, False, True, Action.ASK),
    ],
)
def test_a_caller_who_wants_more_caution_sets_a_floor_under_asking(floor, known, forced, action):
    point = OperatingPoint(floor)
    q, flags = tf.constant([Q]), [tf.constant([flag]) for flag in (forced, known)]
    assert decide(q, *flags, point).numpy().tolist() == [action]
    assert with_floor(q, point).numpy()[0].tolist() == pytest.approx([*Q[:4], max(0.6, floor or 0)])


@pytest.mark.parametrize(
    ("decision", "least", "handed"),
    [(Action.GREEN, 0.29, True), (Action.GREEN, 0.31, False), (Action.GREEN, None, False), (Action.RED, 0.1, False)],
)
def test_what_is_decided_below_red_is_handed_over_where_red_is_possible(decision, least, handed):
    point, decisions = OperatingPoint(hand_over_from=least), tf.constant([decision], tf.int32)
    heads = {"q": tf.constant([Q]), "appropriate": tf.constant([[0.3, 0.2, 0.6, 0.2]])}
    assert handed_over(heads, decisions, point).numpy().tolist() == [handed]
    assert handed_over({"q": heads["q"]}, decisions, point).numpy().tolist() == [False]

import numpy as np
import pytest
import tensorflow as tf

from schemas.errors import InputError
from schemas.triage import (
    ACTION_LABELS,
    NO_QUESTIONS_LEFT,
    NUM_ACTIONS,
    NUM_DECISIONS,
    Action,
    asks_next,
    is_forced,
    is_unsure,
    may_be_red,
    next_step,
    parse_decision,
)


def test_actions_are_in_urgency_order_with_ask_last():
    assert ACTION_LABELS == ("Red", "Yellow", "Green", "Blue", "ask")
    assert [int(action) for action in Action] == [0, 1, 2, 3, 4]
    assert (NUM_DECISIONS, NUM_ACTIONS) == (4, 5)


@pytest.mark.parametrize("label", ["red", "RED", "Red ", "ask", "Orange", "", None, 0, ["Red"]])
def test_anything_else_is_no_triage_decision(label):
    with pytest.raises(InputError, match="Red, Yellow, Green, Blue"):
        parse_decision(label)


@pytest.mark.parametrize("batch", [np.array, tf.constant], ids=["arrays", "tensors"])
def test_a_triage_is_forced_row_by_row(batch):
    asked, limits, exhausted = batch([4, 5, 6, 0]), batch([5] * 4), batch([False, False, False, True])
    assert np.asarray(is_forced(asked, 5)).tolist() == [False, True, True, False]
    assert np.asarray(is_forced(asked, limits, exhausted)).tolist() == [False, True, True, True]
    assert is_forced(NO_QUESTIONS_LEFT, NO_QUESTIONS_LEFT) is True


@pytest.mark.parametrize(
    ("action", "best_triage", "forced", "worth_asking", "must_ask", "any_left", "expected"),
    [
        (Action.ASK, Action.GREEN, False, True, False, True, True),
        (Action.ASK, Action.GREEN, False, False, False, True, False),  # the agent asks, and nothing is worth it
        (Action.ASK, Action.GREEN, False, True, False, False, False),
        (Action.ASK, Action.GREEN, True, True, True, True, False),
        (Action.GREEN, Action.GREEN, False, True, False, True, False),
        (Action.GREEN, Action.GREEN, False, False, True, True, True),  # a red flag is open
        (Action.GREEN, Action.GREEN, False, False, True, False, False),
        (Action.GREEN, Action.GREEN, True, False, True, True, False),
        (Action.RED, Action.RED, False, False, True, True, False),  # nothing is more urgent
        (Action.ASK, Action.RED, False, False, True, True, False),
        (Action.ASK, Action.RED, False, True, True, True, True),
    ],
)
def test_the_next_step_is_to_ask_for_values_arrays_and_tensors_alike(
    action, best_triage, forced, worth_asking, must_ask, any_left, expected
):
    given = (action, best_triage, forced, worth_asking, must_ask, any_left)
    assert asks_next(*given) is expected
    for array in (np.array, tf.constant):
        assert np.asarray(asks_next(*(array([each]) for each in given))).tolist() == [expected]
        assert np.asarray(asks_next(*(array([each]) for each in given[:3]))).tolist() == [asks_next(*given[:3])]


ASKS, DECIDES = {"action": Action.ASK}, {"action": Action.GREEN}
DOUBTS = {"is_novel": True, "unsure": True}


@pytest.mark.parametrize(
    ("given", "ask", "reason"),
    [
        (DECIDES, False, None),
        (ASKS, True, None),
        (ASKS | DOUBTS | {"contradictory": True}, False, 0),  # it gets no better by more answers
        (ASKS | DOUBTS, True, None),  # but this may
        (ASKS | DOUBTS | {"worth_asking": False}, False, 1),
        (DECIDES | DOUBTS | {"must_ask": True}, True, None),
        (DECIDES | DOUBTS, False, 1),
        (DECIDES | {"unsure": True}, False, 2),
        (ASKS | DOUBTS | {"worth_asking": False, "nothing_known": True}, True, None),  # there is no decision to doubt
    ],
)
def test_what_comes_next_is_one_step_for_values_arrays_and_tensors_alike(given, ask, reason):
    given = {"best_triage": Action.GREEN, "forced": False} | given
    handed_over = [number == reason for number in range(3)]
    step = next_step(**given)
    assert (step.ask, step.hand_over, list(step.reasons)) == (ask, reason is not None, handed_over)
    for array in (np.array, tf.constant):
        step = next_step(**{name: array([value]) for name, value in given.items()})
        of_one = [bool(np.asarray(flag).item()) for flag in (step.ask, *step.reasons)]
        assert of_one == [ask, *handed_over]


def test_a_person_takes_over_where_nothing_is_known_and_nobody_can_say_more():
    step = next_step(Action.ASK, Action.GREEN, True, is_novel=True, unsure=True)
    assert (step.ask, step.hand_over, step.reasons) == (False, True, (False, False, False))


@pytest.mark.parametrize(
    ("safe", "red", "hand_over_from", "unsure"),
    [
        (0.8, 0.5, None, False),
        (0.79, 0.5, None, True),
        (0.8, 0.15, 0.15, True),
        (0.8, 0.1, 0.15, False),
        (0.79, 0.1, 0.15, True),
    ],
)
def test_a_decision_is_unsure_below_the_callers_threshold_or_where_it_may_be_red(safe, red, hand_over_from, unsure):
    assert is_unsure(Action.GREEN, safe, red, 0.8, hand_over_from) is unsure
    rows = is_unsure(np.array([Action.GREEN]), np.array([safe]), np.array([red]), 0.8, hand_over_from)
    assert rows.tolist() == [unsure]


@pytest.mark.parametrize(
    ("decision", "red", "expected"),
    [(Action.RED, 0.9, False), (Action.YELLOW, 0.15, True), (Action.BLUE, 0.25, True), (Action.BLUE, 0.1, False)],
)
def test_what_is_decided_below_red_may_be_red_from_the_threshold_on(decision, red, expected):
    assert may_be_red(decision, red, 0.15) is expected
    for array in (np.array, tf.constant):
        assert np.asarray(may_be_red(array([int(decision)]), array([red]), 0.15)).tolist() == [expected]

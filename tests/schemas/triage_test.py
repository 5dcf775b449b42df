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
    deferral_flags,
    is_forced,
    may_be_red,
    parse_decision,
)


def test_actions_are_in_urgency_order_with_ask_last():
    assert ACTION_LABELS == ("Red", "Yellow", "Green", "Blue", "ask")
    assert [int(action) for action in Action] == [0, 1, 2, 3, 4]
    assert (NUM_DECISIONS, NUM_ACTIONS) == (4, 5)


@pytest.mark.parametrize("label", ["red", "RED", "Red ", "ask", "Orange", "", None, 0, ["Red"]])
def test_anything_else_is_no_triage_decision(label):
    with pytest.raises(InputError, match="not one of Red, Yellow, Green, Blue"):
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


@pytest.mark.parametrize(
    ("contradictory", "asks", "is_novel", "unsure", "flags"),
    [
        (False, False, False, False, (False, False, False)),
        (True, True, True, True, (True, False, False)),  # answers that contradict each other get no better by more
        (False, True, True, True, (False, False, False)),
        (False, False, True, True, (False, True, False)),
        (False, False, False, True, (False, False, True)),
    ],
)
def test_a_case_is_handed_over_for_one_reason_for_booleans_arrays_and_tensors_alike(
    contradictory, asks, is_novel, unsure, flags
):
    given = (contradictory, asks, is_novel, unsure)
    assert deferral_flags(*given) == flags
    for array in (np.array, tf.constant):
        assert (
            tuple(np.asarray(flag).tolist()[0] for flag in deferral_flags(*(array([each]) for each in given))) == flags
        )


@pytest.mark.parametrize(
    ("decision", "red", "expected"),
    [(Action.RED, 0.9, False), (Action.YELLOW, 0.15, True), (Action.BLUE, 0.25, True), (Action.BLUE, 0.1, False)],
)
def test_what_is_decided_below_red_may_be_red_from_the_threshold_on(decision, red, expected):
    assert may_be_red(decision, red, 0.15) is expected
    for array in (np.array, tf.constant):
        assert np.asarray(may_be_red(array([int(decision)]), array([red]), 0.15)).tolist() == [expected]

"""Where an agent stops at an operating point, what it then reaches, and what that is worth."""

import numpy as np
import pytest

from schemas.triage import Action
from trainer.graph.decide import NEUTRAL, OperatingPoint
from trainer.graph.operating_point import (
    FLOORS,
    HeldOutOutputs,
    Quality,
    candidates,
    handing_over,
    leaving,
    quality,
    stops,
    worth,
)
from triage_runtime.promise import HANDED_OVER

ASKS, DECIDES = 0.9, 0.1  # Q(ask)
GREEN, YELLOW, RED = [0.1, 0.5, 0.8, 0.1], [0.2, 0.7, 0.3, 0.0], [0.6, 0.4, 0.0, 0.0]


@pytest.fixture
def two():
    """Of three pieces the first vignette is asked about twice; the second stops after the first of its two."""
    q = [[*GREEN, ASKS], [*YELLOW, ASKS], [*RED, ASKS], [*YELLOW, DECIDES], [*GREEN, DECIDES]]
    appropriate = np.zeros([5, 4], np.float32)
    appropriate[3, Action.RED] = 0.25
    return HeldOutOutputs(np.float32(q), appropriate, np.array([3, 2]), np.uint8([[2, 1, 0, 0], [0, 0, 3, 0]]))


def test_asking_ends_with_the_evidence_or_where_a_decision_is_worth_more(two):
    assert stops(two, NEUTRAL).tolist() == [3, 1]
    # The second vignette's decisions are worth .7 and .8.
    assert stops(two, OperatingPoint(0.69)).tolist() == [3, 1]
    assert stops(two, OperatingPoint(0.75)).tolist() == [3, 2]


def test_quality_worked_out_by_hand(two):
    # Red after 3 of 3 pieces where Red and Yellow are given; Yellow after 1 of 2 where Green is: safe, over-triage.
    assert quality(two, NEUTRAL) == Quality(
        appropriateness=0.5, safety=1.0, over_triage=0.5, red_found=1.0, evidence=pytest.approx(4 / 5)
    )
    # With a floor of .75 it decides Green for the second one, after both pieces.
    assert quality(two, OperatingPoint(0.75)) == Quality(1.0, 1.0, 0.0, 1.0, pytest.approx(5 / 5))


def test_what_is_handed_over_leaves_with_no_decision_and_is_worth_nothing(two):
    point = OperatingPoint(hand_over_from=0.2)
    assert leaving(two, NEUTRAL).tolist() == [Action.RED, Action.YELLOW]
    assert leaving(two, point).tolist() == [Action.RED, HANDED_OVER]
    # .6 after three pieces and .7 after one, less the price of two pieces in the mean.
    assert worth(two, NEUTRAL, 0.01) == pytest.approx((0.6 + 0.7) / 2 - 0.02)
    assert worth(two, point, 0.01) == pytest.approx(0.6 / 2 - 0.02)


def test_a_promise_is_looked_for_at_the_agent_s_own_point_first_and_at_each_floor():
    own = OperatingPoint(0.91)
    assert candidates(own) == [own, *map(OperatingPoint, FLOORS)]
    assert len(candidates(NEUTRAL)) == len(FLOORS), "no point twice"
    handing = handing_over([own])
    assert {each.sure_enough for each in handing} == {0.91}
    assert None not in {each.hand_over_from for each in handing}

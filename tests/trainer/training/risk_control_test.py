"""Learn then Test: the order of the tests, what a refusal states, and how often both are wrong."""

import numpy as np
import pytest

from trainer.graph.decide import OperatingPoint
from trainer.graph.operating_point import HeldOutOutputs
from trainer.training.risk_control import control, in_order
from triage_runtime.promise import Count, upper_bound

FIRST, SECOND, THIRD = (OperatingPoint(floor) for floor in (None, 0.8, 0.9))


def judge(errors, patients=100):
    """Errors of Red by operating point, in one setting."""
    return lambda point: {"interview": {"red": Count(errors[point], patients)}}


def test_points_are_tested_in_order_until_one_fails():
    # At .1, 4 or fewer of 100 have the probability .024, 5 or fewer .058.
    errors = {FIRST: 4, SECOND: 5, THIRD: 0}
    result = control([FIRST, SECOND, THIRD], judge(errors), {"red": 0.1}, 0.05)
    assert result.kept == [FIRST], "the third would pass, but is not reached"
    assert control([THIRD, FIRST, SECOND], judge(errors), {"red": 0.1}, 0.05).kept == [THIRD, FIRST]


def test_all_risks_must_hold_in_all_settings():
    found = {"interview": {"red": Count(0, 100), "over": Count(0, 100)}, "all_evidence": {}}
    for other, kept in ((0, [FIRST]), (30, [])):
        found["all_evidence"] = {"red": Count(0, 100), "over": Count(other, 100)}
        assert control([FIRST], lambda _: found, {"red": 0.1, "over": 0.3}, 0.1).kept == kept
    assert control([FIRST], lambda _: found, {"red": 0.1}, 0.1).kept == [FIRST], "what is not promised does not count"


def test_a_refusal_states_what_holds_all_at_once():
    result = control([FIRST, SECOND], judge({FIRST: 20}), {"red": 0.1}, 0.1)
    assert (result.kept, result.likeliest) == ([], FIRST)
    assert result.bounds == {"red": pytest.approx(upper_bound(Count(20, 100), 0.025))}
    both = {"a": {"red": Count(20, 100), "over": Count(3, 100)}, "b": {"red": Count(9, 100), "over": Count(8, 100)}}
    each = 0.025 / 4
    assert control([FIRST], lambda _: both, {"red": 0.1, "over": 0.1}, 0.1).bounds == {
        "red": pytest.approx(upper_bound(Count(20, 100), each)),
        "over": pytest.approx(upper_bound(Count(8, 100), each)),
    }


def test_what_is_stated_is_wrong_no_more_often_than_it_says():
    """Three points with a true risk of .07, .12 and .11, asked for .1: only the first one may be kept."""
    risks, error = {FIRST: 0.07, SECOND: 0.12, THIRD: 0.11}, 0.2
    generator = np.random.default_rng(0)
    wrong, kept = 0, 0
    for _ in range(2_000):
        errors = {point: generator.binomial(300, risk) for point, risk in risks.items()}
        result = control([FIRST, SECOND, THIRD], judge(errors, 300), {"red": 0.1}, error)
        kept += bool(result.kept)
        wrong += any(risks[point] > 0.1 for point in result.kept) or risks[FIRST] > result.bounds.get("red", 1.0)
    # The standard error of a share near .1 is .007.
    assert wrong / 2_000 <= error
    assert kept / 2_000 > 0.3, "it is not vacuous"


def test_held_out_patients_decide_the_order():
    # After one piece it decides Green, which is worth .7, and asks no more. After two, Yellow is right, worth .95.
    rows = [[0.0, 0.3, 0.7, 0.0, 0.1], [0.0, 0.95, 0.5, 0.0, 0.1]]
    q, sizes = np.float32(rows * 50), np.full(50, 2)
    held_out = HeldOutOutputs(q, np.zeros([100, 4], np.float32), sizes, np.array([[0, 3, 0, 0]] * 50))
    assert in_order([FIRST, SECOND, THIRD], held_out, {"yellow": 0.1}) == [THIRD, SECOND, FIRST]

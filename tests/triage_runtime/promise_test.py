"""Errors of each risk counted by hand, and what they say of other patients."""

import numpy as np
import pytest

from schemas.promise import RISKS
from triage_runtime.promise import HANDED_OVER, Count, broken, count, lower_bound, p_value, upper_bound

RED, YELLOW, GREEN, BLUE = range(4)


def test_each_risk_is_about_its_own_patients_and_errors():
    patients = [
        (YELLOW, [2, 1, 0, 0]),  # called Red, and sent to Yellow, which one clinician gave: no under-triage
        (GREEN, [2, 0, 0, 0]),  # called Red: an error for Red, for Yellow, and under-triage
        (YELLOW, [1, 1, 0, 0]),  # as many Red as Yellow count as Red
        (GREEN, [0, 2, 1, 0]),  # called Yellow, and leaves as Green
        (RED, [0, 3, 0, 0]),  # more urgent than any clinician
        (BLUE, [0, 0, 1, 2]),  # called Blue
        (HANDED_OVER, [2, 0, 0, 0]),  # called Red: no error, as a person decides
        (HANDED_OVER, [0, 0, 2, 0]),
    ]
    decisions, counts = (np.array(column) for column in zip(*patients, strict=True))
    found = count(decisions, counts)
    assert found == {"red": (3, 4), "yellow": (2, 6), "under": (1, 8), "over": (1, 8), "handed_over": (2, 8)}
    assert list(found) == list(RISKS)


def test_the_p_value_is_exact():
    # None of 20 at a risk of .1 has the probability .9 ** 20; one at most .9 ** 20 + 20 * .1 * .9 ** 19.
    assert p_value(Count(0, 20), 0.1) == pytest.approx(0.9**20)
    assert p_value(Count(1, 20), 0.1) == pytest.approx(0.9**20 + 2 * 0.9**19)
    assert p_value(Count(0, 0), 0.1) == 1.0, "nothing is shown without patients"


def test_bounds_are_the_levels_that_the_errors_just_reject():
    upper = upper_bound(Count(3, 50), 0.05)
    assert p_value(Count(3, 50), upper) == pytest.approx(0.05)
    # So few errors as all less k, seen from the other side.
    assert lower_bound(Count(47, 50), 0.05) == pytest.approx(1 - upper)
    assert (upper_bound(Count(2, 2), 0.05), lower_bound(Count(0, 9), 0.05), upper_bound(Count(0, 0), 0.05)) == (1, 0, 1)


def test_a_level_is_broken_only_where_others_show_it_with_all_risks_counted():
    # At .1, 6 or more of 20 have the probability .0113: enough for one risk at .02, too much for each of two.
    found = {"red": Count(6, 20), "over": Count(0, 20)}
    assert broken({"red": 0.1}, found, 0.02) == ["red"]
    assert broken({"red": 0.1, "over": 0.5}, found, 0.02) == []

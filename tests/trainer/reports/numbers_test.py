"""Numbers of a study as text."""

import pytest

from trainer.evaluation.estimates import Estimate
from trainer.reports import numbers
from trainer.reports.numbers import QUESTIONS, SAFETY


@pytest.mark.parametrize(
    ("measure", "value", "text"),
    [(SAFETY, 0.8514, "85.1%"), (SAFETY, 1.0, "100.0%"), (QUESTIONS, 13.344, "13.34"), (QUESTIONS, None, "\u2013")],
)
def test_a_share_is_a_percentage_and_a_count_is_none(measure, value, text):
    assert numbers.shown(measure, value) == text


def test_an_interval_has_the_percent_sign_once_and_no_dash_beside_a_minus():
    assert numbers.with_interval(SAFETY, Estimate(0.9, 0.8, 0.95)) == "90.0% (80.0\u201395.0%)"
    assert numbers.with_interval(QUESTIONS, Estimate(0.0, -0.5, 1.0)) == "0.00 (\N{MINUS SIGN}0.50 to 1.00)"
    assert numbers.with_interval(SAFETY, Estimate(0.9)) == "90.0%"
    assert numbers.with_interval(SAFETY, None) == "\u2013"


def test_differences_have_a_sign_and_shares_differ_in_points():
    text = numbers.difference(SAFETY, Estimate(0.012, -0.003, 0.027))
    assert text == "+1.2 (\N{MINUS SIGN}0.3 to +2.7)"
    assert numbers.difference(QUESTIONS, Estimate(1.25)) == "+1.25"
    assert numbers.difference(QUESTIONS, None) == "\u2013"


def test_one_has_no_plural():
    assert [numbers.several(number, "seed") for number in (0, 1, 1200)] == ["0 seeds", "1 seed", "1,200 seeds"]

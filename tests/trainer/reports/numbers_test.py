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
    assert numbers.interval(SAFETY, Estimate(0.85, 0.79, 0.908)) == "79.0\u201390.8%"
    assert numbers.interval(SAFETY, Estimate(0.85, 0.79, 0.908), " to ") == "79.0% to 90.8%"
    assert numbers.interval(QUESTIONS, Estimate(0.0, -0.5, 1.0)) == "\N{MINUS SIGN}0.50 to 1.00"
    assert numbers.interval(SAFETY, Estimate(0.85)) is None
    assert numbers.interval(SAFETY, None) is None


def test_a_mean_without_interval_is_shown_by_itself():
    assert numbers.with_interval(SAFETY, Estimate(0.9)) == "90.0%"
    assert numbers.with_interval(SAFETY, Estimate(0.9, 0.8, 0.95)) == "90.0% (80.0\u201395.0%)"


def test_differences_have_a_sign_and_shares_differ_in_points():
    text = numbers.difference(SAFETY, Estimate(0.012, -0.003, 0.027))
    assert text == "+1.2 (\N{MINUS SIGN}0.3 to +2.7)"
    assert numbers.difference(QUESTIONS, Estimate(1.25)) == "+1.25"
    assert numbers.difference(QUESTIONS, None) == "\u2013"


@pytest.mark.parametrize("value", [None, "0.5", True, float("nan"), float("inf"), [1], {}])
def test_what_is_not_a_finite_number_is_not_measured(value):
    assert numbers.number_at({"a": {"b": value}}, "a", "b") is None


def test_zero_is_a_number():
    assert numbers.number_at({"a": 0}, "a") == 0.0
    assert numbers.count(0) == "0"


def test_a_missing_or_null_branch_ends_the_look_up():
    assert numbers.value_at({"a": None}, "a", "b") is None
    assert numbers.value_at({}, "a", "b") is None
    assert numbers.value_at({"a": 0.5}, "a", "b") is None
    assert numbers.value_at({"a": {"b": False}}, "a", "b") is False


def test_agents_that_were_not_run_are_left_out():
    assert list(numbers.agents_of({"agents": {"b": {"label": "B"}, "a": None}})) == ["b"]
    assert numbers.agents_of({"agents": None}) == {}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "\u2013"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (1234.5, "20 min 34 s"),
        (3600, "1 h 0 min"),
        (4523, "1 h 15 min"),
    ],
)
def test_durations_show_their_two_largest_parts(seconds, text):
    assert numbers.duration(seconds) == text


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (list("abc"), "a, b and c")]
)
def test_lists_read_as_sentences(names, text):
    assert numbers.listed(names) == text


def test_one_has_no_plural():
    assert [numbers.several(number, "seed") for number in (0, 1, 1200)] == ["0 seeds", "1 seed", "1,200 seeds"]

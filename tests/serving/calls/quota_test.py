"""The rate of each caller, by a clock that the test moves."""

import pytest

from serving.calls import quota
from serving.calls.quota import Quota
from serving.errors import QuotaError


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def calls(limit, caller, most=1000):
    """How many calls pass at once."""
    for number in range(most):
        try:
            limit.take(caller)
        except QuotaError:
            return number
    return most


def test_a_caller_who_was_quiet_may_make_ten_seconds_of_calls_and_then_the_rate():
    clock = Clock()
    limit = Quota(2.0, clock)
    assert calls(limit, "a") == 20
    clock.now += 1.5
    assert calls(limit, "a") == 3
    clock.now += 3600
    assert calls(limit, "a") == 20


def test_callers_do_not_share_a_rate():
    limit = Quota(2.0, Clock())
    assert [calls(limit, "a"), calls(limit, "b")] == [20, 20]


def test_a_refused_caller_is_told_when_the_next_call_passes():
    clock = Clock()
    limit = Quota(4.0, clock)
    assert calls(limit, "a") == 40
    with pytest.raises(QuotaError, match="more than 4 calls per second") as error:
        limit.take("a")
    assert error.value.retry_seconds == 0.25
    clock.now += error.value.retry_seconds
    limit.take("a")


def test_a_rate_below_one_call_in_ten_seconds_lets_one_call_through():
    clock = Clock()
    limit = Quota(0.05, clock)
    assert calls(limit, "a") == 1
    clock.now += 20
    assert calls(limit, "a") == 1


def test_without_a_rate_nothing_is_refused_or_kept():
    limit = Quota(0.0, Clock())
    assert calls(limit, "a") == 1000
    assert limit._paid == {}


def test_callers_who_are_long_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(quota, "_MOST_CALLERS", 3)
    clock = Clock()
    limit = Quota(1.0, clock)
    for caller in "abc":
        limit.take(caller)
    clock.now += 60
    limit.take("d")
    assert set(limit._paid) == {"d"}

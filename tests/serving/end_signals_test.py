"""The first signal is waited for, the second ends the process as if nobody caught it."""

import os
import signal

import pytest

from serving.end_signals import EndSignals


@pytest.fixture(autouse=True)
def _handlers_as_before():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_signal_that_comes_is_told_and_the_next_one_is_not_caught(number):
    signals = EndSignals()
    os.kill(os.getpid(), number)
    assert signals.wait() == number
    assert {signal.getsignal(caught) for caught in (signal.SIGTERM, signal.SIGINT)} == {signal.SIG_DFL}

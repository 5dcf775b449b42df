"""The first signal is waited for, the second ends the process as if nobody caught it."""

import os
import signal
import threading

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


def test_a_signal_that_the_system_hands_to_another_thread_is_told_too():
    signals = EndSignals()
    waiting, handed = threading.Event(), threading.Event()

    def take_it():
        waiting.wait(10)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        handed.wait(10)  # while it runs, the main thread has nothing but the signal to wake for

    thread = threading.Thread(target=take_it)
    thread.start()
    waiting.set()
    assert signals.wait() == signal.SIGTERM
    handed.set()
    thread.join()

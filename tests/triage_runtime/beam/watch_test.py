"""While a pipeline runs, someone looks at how far it is."""

import threading

import pytest

from triage_runtime.beam import watch
from triage_runtime.beam.watch import pause_after, watching


def test_looks_are_taken_until_the_end_though_one_fails(monkeypatch):
    monkeypatch.setattr(watch, "_SHORTEST", 0.001)
    takers, third = [], threading.Event()

    def look():
        takers.append(threading.current_thread())
        if len(takers) == 3:
            third.set()
        if len(takers) == 2:
            raise OSError("the store does not answer")

    with watching(look):
        assert third.wait(timeout=10)
    assert takers[0] is not threading.current_thread()
    assert takers[-1] is threading.current_thread()  # when all is done


def test_after_an_error_nothing_is_looked_at_any_more():
    takers = []
    with pytest.raises(ValueError, match="lost"), watching(lambda: takers.append(threading.current_thread())):
        raise ValueError("lost")
    assert threading.current_thread() not in takers


def test_slow_looks_take_a_tenth_of_the_time():
    assert (pause_after(0.01), pause_after(2.0)) == (0.5, 18.0)  # of 20 seconds, 2

"""A signal ends the wait whichever thread gets it, and a process ends although a thread hangs."""

import pathlib
import signal
import subprocess
import sys
import threading

import pytest

from serving.process import EndSignals


@pytest.fixture(autouse=True)
def _handlers_as_before():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.slow
def test_a_signal_delivered_to_another_thread_is_returned_too():
    signals = EndSignals()
    waiting, handed = threading.Event(), threading.Event()

    def take_it():
        waiting.wait(10)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        handed.wait(10)  # meanwhile only the signal can wake the main thread

    thread = threading.Thread(target=take_it)
    thread.start()
    waiting.set()
    assert signals.wait() == signal.SIGTERM
    assert {signal.getsignal(caught) for caught in (signal.SIGTERM, signal.SIGINT)} == {signal.SIG_DFL}
    handed.set()
    thread.join()


ROOT = pathlib.Path(__file__).parents[2]
HANGS = """
import threading
from serving import process
process.end_after(0.1, 7)
threading.Thread(target=threading.Event().wait, name="stuck").start()
"""


@pytest.mark.slow
def test_a_process_in_which_a_thread_hangs_ends_in_time_and_names_it():
    ended = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert ended.returncode == 7
    assert "within 0.1 s" in ended.stderr
    assert ended.stderr.endswith("its threads: end, stuck\n")

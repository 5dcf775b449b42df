"""The first signal ends the wait, and the second ends the process by its default action."""

import os
import pathlib
import platform
import signal
import subprocess
import sys
import threading

import pytest

from schemas.errors import InputError
from serving import process
from serving.process import EndSignals


@pytest.fixture(autouse=True)
def _handlers_as_before():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_returned_and_the_second_ends_the_process(number):
    signals = EndSignals()
    os.kill(os.getpid(), number)
    assert signals.wait() == number
    assert {signal.getsignal(caught) for caught in (signal.SIGTERM, signal.SIGINT)} == {signal.SIG_DFL}


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
    handed.set()
    thread.join()


def test_the_port_file_has_the_port_and_no_partial_file_remains(tmp_path):
    path = tmp_path / "port"
    path.write_text("1\n")
    process.write(path, 8500)
    assert path.read_text() == "8500\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["port"]


def test_a_port_file_is_removed_if_there_is_one(tmp_path):
    path = tmp_path / "port"
    process.write(path, 8500)
    for _ in range(2):
        process.remove(path)
        assert list(tmp_path.iterdir()) == []
    os.mkfifo(path)  # as root could replace a device
    with pytest.raises(InputError, match=r"--port-file .*port: cannot remove: it is not a regular file"):
        process.remove(path)
    with pytest.raises(InputError, match=r"--port-file .*port: cannot write: it is not a regular file"):
        process.write(path, 8500)
    assert path.is_fifo()


pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are glibc's")


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
    assert "has not ended within 0.1 s, and is ended now; its threads: end, stuck" in ended.stderr

"""The first signal ends the wait, and the second ends the process by its default action."""

import gc
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import threading
import weakref

import pytest

from schemas.errors import InputError
from serving import process
from serving.process import EndSignals, freeze_loaded_objects


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


def test_a_folder_that_is_missing_is_reported(tmp_path):
    with pytest.raises(InputError, match=r"--port-file .*port: cannot write: No such file or directory"):
        process.write(tmp_path / "nowhere" / "port", 8500)


class Node:
    """Refers to itself, so that only garbage collection frees it."""

    def __init__(self):
        self.itself = self


def test_frozen_objects_are_not_collected_and_later_ones_are():
    before = weakref.ref(Node())
    kept = Node()
    try:
        freeze_loaded_objects()
        assert gc.get_freeze_count() > 1000  # Python's own modules alone have more
        assert all(each is not kept for each in gc.get_objects())
        after = weakref.ref(Node())
        gc.collect()
        assert before() is None  # garbage is collected
        assert after() is None
    finally:
        gc.unfreeze()


pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are glibc's")

# 40 threads that hold memory at the same time, and glibc's own account of its arenas.
MANY_THREADS = """
import ctypes, threading
{limit}
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
together = threading.Barrier(40)
def hold():
    libc.malloc(ctypes.c_size_t(1000))
    together.wait()
threads = [threading.Thread(target=hold) for _ in range(40)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""
LIMIT = "from serving import process; process.limit_arenas()"


def arenas(limit, **environment):
    kept = {name: value for name, value in os.environ.items() if name not in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")}
    trace = subprocess.run(
        [sys.executable, "-c", MANY_THREADS.format(limit=limit)],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    return len(re.findall("<heap nr=", trace))


@pytest.mark.slow
def test_threads_share_as_many_arenas_as_there_are_cores():
    most = max(2, os.cpu_count())
    assert arenas("") > 2  # otherwise the limit would prove nothing
    assert arenas(LIMIT) <= most
    assert arenas(f"import os; os.cpu_count = lambda: 1; {LIMIT}") == 2
    assert arenas(f"import os; os.cpu_count = lambda: 3; {LIMIT}") == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("MALLOC_ARENA_MAX", "5", 5),
        ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=3:glibc.malloc.arena_max=5", 5),
        ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=3", 3),
    ],
)
def test_the_setting_of_whoever_runs_the_server_counts(name, value, expected):
    assert arenas(f"import os; os.cpu_count = lambda: 3; {LIMIT}", **{name: value}) == expected


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

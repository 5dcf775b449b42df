"""How many arenas the C library makes for many threads."""

import argparse
import os
import platform
import re
import subprocess
import sys

import pytest

from serving import allocator, server

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
LIMIT = "from serving import allocator; allocator.limit_arenas()"


def arenas(limit, **environment):
    kept = {name: value for name, value in os.environ.items() if name not in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")}
    told = subprocess.run(
        [sys.executable, "-c", MANY_THREADS.format(limit=limit)],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    return len(re.findall("<heap nr=", told))


def test_threads_share_as_many_arenas_as_there_are_cores():
    most = max(2, os.cpu_count())
    assert arenas("") > 2  # else the limit would show nothing
    assert arenas(LIMIT) <= most
    assert arenas(f"import os; os.cpu_count = lambda: 1; {LIMIT}") == 2
    assert arenas(f"import os; os.cpu_count = lambda: 3; {LIMIT}") == 3


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


def test_the_server_limits_them_before_it_does_anything_else(monkeypatch):
    class CalledError(Exception):
        pass

    def limit():
        raise CalledError

    monkeypatch.setattr(allocator, "limit_arenas", limit)
    with pytest.raises(CalledError):
        server.run(argparse.Namespace())

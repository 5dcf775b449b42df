"""The C library's memory, of which no more should be kept than is used."""

import ctypes
import os

_ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h


def limit_arenas() -> None:
    """Has threads share as many arenas as there are cores, 2 at least, unless glibc's own settings say otherwise.

    glibc makes up to eight times as many. Every version of a model is loaded by some thread, and what another thread
    keeps beside it holds the memory of the whole in that arena: a server to which versions come grows from one to the
    next, though nothing of them is left. To be called before there are threads. Where the C library is another one,
    which may have no arenas, nothing happens.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "glibc.malloc.arena_max=" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # Windows has no C library of that kind, and others no mallopt
        return
    mallopt(ctypes.c_int(_ARENA_MAX), ctypes.c_int(max(2, os.cpu_count() or 1)))

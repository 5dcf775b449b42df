"""The process that serves: signals that end it, its port file, and how it uses memory."""

import contextlib
import ctypes
import gc
import os
import pathlib
import queue
import signal

from schemas import whole_file
from schemas.errors import InputError

_LOOK_SECONDS = 0.5


class EndSignals:
    """Waits for SIGTERM or SIGINT. A second one ends the process at once, as if nobody had caught it."""

    def __init__(self) -> None:
        # An Event would be no good: a handler that interrupts its wait() in the wrong place blocks for ever in set().
        self._came: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._catch)

    def _catch(self, number: int, frame: object) -> None:
        for caught in (signal.SIGTERM, signal.SIGINT):
            signal.signal(caught, signal.SIG_DFL)
        self._came.put(number)

    def wait(self) -> int:
        """Returns the number of the signal that came; to be called in the main thread.

        The system may hand a signal to any thread, but Python handles it in this one, which it does not wake for it.
        """
        while True:
            with contextlib.suppress(queue.Empty):
                return self._came.get(timeout=_LOOK_SECONDS)


def write(path: pathlib.Path, port: int) -> None:
    """Writes `port` and a line feed; a reader sees the whole file or none.

    Raises:
        InputError: it cannot be written.
    """
    try:
        with whole_file.replacing(path) as file:
            file.write(f"{port}\n")
    except OSError as error:
        raise InputError(f"--port-file {path}: cannot write: {error.strerror or error}") from error


def leave_out_what_is_loaded() -> None:
    """Takes all objects of now out of garbage collection for good; what is made later is collected as ever.

    A full collection stops every call while it walks the hundreds of thousands of objects that TensorFlow's modules
    hold. To be called after they are imported and before a model is loaded, since models are to be freed.
    """
    gc.collect()
    gc.freeze()


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

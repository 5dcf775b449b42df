"""The server's process: termination signals, systemd, and memory settings."""

import contextlib
import ctypes
import gc
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from typing import NoReturn

_LOGGER = logging.getLogger(__name__)
_LOOK_SECONDS = 0.5


class EndSignals:
    """Waits for SIGTERM or SIGINT. A second signal ends the process at once, by its default action."""

    def __init__(self) -> None:
        # Not an Event: a handler that interrupts its wait() in the wrong place blocks forever in set().
        self._received: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._catch)

    def _catch(self, number: int, frame: object) -> None:
        for caught in (signal.SIGTERM, signal.SIGINT):
            signal.signal(caught, signal.SIG_DFL)
        self._received.put(number)

    def wait(self) -> int:
        """Returns the number of the signal; call this in the main thread.

        The system may deliver a signal to any thread, but Python handles it in the main thread without waking it.
        """
        while True:
            with contextlib.suppress(queue.Empty):
                return self._received.get(timeout=_LOOK_SECONDS)


def notify(state: str) -> None:
    """Tells systemd `state`, such as READY=1, if it started this process with Type=notify; see sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(state.encode(), address.replace("@", "\0", 1) if address.startswith("@") else address)


def exit_code(number: int) -> int:
    """Returns the exit code after a signal: 0 for SIGTERM, which is how a server is asked to end."""
    return 0 if number == signal.SIGTERM else 128 + number


def end_after(seconds: float, code: int) -> None:
    """Ends the process after some time, even if a thread hangs, for example on a lost network mount."""

    def wait_and_end() -> None:
        time.sleep(seconds)
        names = ", ".join(
            sorted(thread.name for thread in threading.enumerate() if thread is not threading.main_thread())
        )
        _LOGGER.error("the server did not stop within %g s and is being ended; its threads: %s", seconds, names)
        end(code)

    threading.Thread(target=wait_and_end, name="end", daemon=True).start()


def end(code: int) -> NoReturn:
    """Ends the process at once, without waiting for its threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def freeze_loaded_objects() -> None:
    """Excludes all existing objects from garbage collection; later objects are collected as usual.

    A full collection stops every call while it visits the hundreds of thousands of objects in TensorFlow's modules.
    Call this after importing them and before loading a model, as models must be freed.
    """
    gc.collect()
    gc.freeze()


def allow_open_files() -> None:
    """Lets the process open as many files as it may, as each connection is one; the usual limit is 1,024."""
    if sys.platform == "win32":
        return
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses "unlimited"
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


_ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h


def limit_arenas() -> None:
    """Limits malloc to one arena per core, at least 2, unless glibc's own settings say otherwise.

    glibc makes up to eight times as many. Each version of a model is loaded by some thread, and a small allocation that
    outlives the version keeps the memory of that thread's arena, so a server would grow with every new version. Call
    this before starting threads. It does nothing with other C libraries.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "glibc.malloc.arena_max=" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # not glibc
        return
    mallopt(ctypes.c_int(_ARENA_MAX), ctypes.c_int(max(2, os.cpu_count() or 1)))

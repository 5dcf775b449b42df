"""Workers of Apache Beam on this machine: their log, kept off the terminal, and what to do when one is killed."""

import contextlib
import os
import pathlib
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any, TextIO, cast

_WORKER = "run_worker"  # Beam's thread that waits for the process of a worker
_INTERRUPTED = (" -2", " 130")  # Ctrl-C reaches all processes


class HeldLog:
    """A file that takes what is written to standard error in the context, and is deleted at its end.

    Beam's workers write there from C++ and from processes of their own, so that no setting of `logging` reaches all of
    it. What the threads of this process that run already write to `sys.stderr` is still shown.
    """

    def __init__(self) -> None:
        descriptor, name = tempfile.mkstemp(prefix="triage-beam-", suffix=".log")
        self._path, self._descriptor = pathlib.Path(name), descriptor
        self._kept = False

    def keep(self) -> pathlib.Path | None:
        """Returns the path of the file, which then stays, or None if it is empty."""
        self._kept = self._path.stat().st_size > 0
        return self._path if self._kept else None

    def __enter__(self) -> "HeldLog":
        sys.stderr.flush()
        self._shown = os.dup(2)
        os.dup2(self._descriptor, 2)
        os.close(self._descriptor)
        self._stack = contextlib.ExitStack()
        shown = sys.stderr
        if _writes_to_standard_error():
            shown = os.fdopen(os.dup(self._shown), "w", encoding=sys.stderr.encoding, errors="backslashreplace")
            self._stack.enter_context(shown)
        self._stack.enter_context(contextlib.redirect_stderr(cast(TextIO, _OfRunningThreads(shown))))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
        os.dup2(self._shown, 2)
        os.close(self._shown)
        if not self._kept:
            self._path.unlink(missing_ok=True)


class _OfRunningThreads:
    """A file for the threads that run already; what others write, as Beam's do, goes to standard error below Python."""

    def __init__(self, shown: TextIO):
        self._shown = shown
        # Beam keeps its threads for other pipelines.
        ours = (each for each in threading.enumerate() if not type(each).__module__.startswith("apache_beam."))
        self._running = frozenset(ours)

    def write(self, text: str) -> int:
        if threading.current_thread() in self._running:
            return self._shown.write(text)
        os.write(2, text.encode(errors="backslashreplace"))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shown, name)


def _writes_to_standard_error() -> bool:
    try:
        return sys.stderr.fileno() == 2
    except (OSError, ValueError):  # a stand-in without a file
        return False


@contextlib.contextmanager
def ending_with_workers() -> Iterator[None]:
    """Ends the block when the process of a worker ends before its time, for which Beam would wait without end.

    What is raised in Beam's threads goes to standard error below Python, as the other lines of its log.

    Raises:
        RuntimeError: a process of a worker was killed.
        KeyboardInterrupt: the user has interrupted this process.
    """
    lost: list[BaseException | None] = []
    main, before = threading.main_thread(), threading.excepthook

    def log(raised: threading.ExceptHookArgs) -> None:
        lines = traceback.format_exception(raised.exc_type, raised.exc_value, raised.exc_traceback)
        os.write(2, "".join(lines).encode())
        if raised.thread and raised.thread.name == _WORKER and not str(raised.exc_value).endswith(_INTERRUPTED):
            lost.append(raised.exc_value)
            signal.pthread_kill(main.ident or 0, signal.SIGINT)

    threading.excepthook = log
    try:
        yield
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt) and not isinstance(error.__context__, KeyboardInterrupt):
            raise
        if lost:
            raise RuntimeError(str(lost[0])) from error
        raise KeyboardInterrupt from error
    finally:
        threading.excepthook = before

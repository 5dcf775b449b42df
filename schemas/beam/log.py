"""The log of Apache Beam and of its workers on this machine, kept off the terminal."""

import contextlib
import os
import pathlib
import sys
import tempfile
from types import TracebackType


class HeldLog:
    """A file that takes what is written to standard error in the context, and is deleted at its end.

    Beam's workers write there from C++ and from processes of their own, so that no setting of `logging` reaches all of
    it. What this process writes to `sys.stderr` is still shown.
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
        if _writes_to_standard_error():
            shown = os.fdopen(os.dup(self._shown), "w", encoding=sys.stderr.encoding, errors="backslashreplace")
            self._stack.enter_context(shown)
            self._stack.enter_context(contextlib.redirect_stderr(shown))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
        os.dup2(self._shown, 2)
        os.close(self._shown)
        if not self._kept:
            self._path.unlink(missing_ok=True)


def _writes_to_standard_error() -> bool:
    try:
        return sys.stderr.fileno() == 2
    except (OSError, ValueError):  # a stand-in without a file
        return False

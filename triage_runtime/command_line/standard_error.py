"""Keeps library messages off the terminal that no setting can turn off."""

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator

_REDIRECTING = threading.Lock()  # held by the thread that removes lines


@contextlib.contextmanager
def standard_error_without(*unwanted: bytes) -> Iterator[None]:
    """Removes lines that hold one of the texts from what is written to standard error while the block runs.

    Whatever other threads write meanwhile appears a moment later. The lines stay on systems without in-memory files.
    """
    with _REDIRECTING:
        try:
            os.fstat(2)  # it may be closed
            descriptor = os.memfd_create("stderr")
        except (AttributeError, OSError):
            yield
            return
        with open(descriptor, "r+b") as held:
            try:
                with _redirected(descriptor):
                    yield
            finally:
                held.seek(0)
                os.write(2, b"".join(line for line in held if not any(text in line for text in unwanted)))


@contextlib.contextmanager
def silent_unless_failing() -> Iterator[None]:
    """Holds back what is written to standard error, and shows it if the block fails, but not on Ctrl-C.

    While it loads, TensorFlow writes some ten lines about processors and graphics cards before it applies its own log
    level. Set TF_CPP_MIN_LOG_LEVEL to 0 or 1 to see them.
    """
    with tempfile.TemporaryFile() as held:
        try:
            with _redirected(held.fileno()):
                yield
        except Exception:
            held.seek(0)
            os.write(2, held.read())
            raise


@contextlib.contextmanager
def _redirected(descriptor: int) -> Iterator[None]:
    sys.stderr.flush()
    shown = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(shown, 2)
        os.close(shown)

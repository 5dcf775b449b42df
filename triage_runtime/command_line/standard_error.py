"""Keeps off the terminal what libraries write to standard error, and have no setting for."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

_REDIRECTING = threading.Lock()  # held by the thread that redirects standard error


@contextlib.contextmanager
def standard_error_without(*unwanted: bytes) -> Iterator[None]:
    """Removes lines that hold one of the texts from what is written to standard error while the block runs.

    For libraries that have no setting for it. Whatever other threads write meanwhile appears a moment later. The lines
    stay on systems without in-memory files.
    """
    with _REDIRECTING:
        try:
            sys.stderr.flush()
            held, shown = os.memfd_create("stderr"), os.dup(2)
        except (AttributeError, OSError):
            yield
            return
        os.dup2(held, 2)
        try:
            yield
        finally:
            os.dup2(shown, 2)
            os.lseek(held, 0, os.SEEK_SET)
            with open(held, "rb") as lines:
                os.write(shown, b"".join(line for line in lines if not any(text in line for text in unwanted)))
            os.close(shown)

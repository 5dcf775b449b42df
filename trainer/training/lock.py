"""Locks a directory against a second command."""

import fcntl
from typing import IO, Any

from schemas.errors import InputError


def lock(file: IO[Any], taken: str) -> None:
    """Locks an open file until it is closed or its process ends, however that ends.

    On a file system without locks, nothing is locked.

    Raises:
        InputError: another process holds the lock; its message is `taken`.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(taken) from None
    except OSError:  # a file system without locks
        pass

"""What is read from files that may change while the server runs."""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from schemas.errors import InputError

_LOGGER = logging.getLogger(__name__)
_Content = TypeVar("_Content")


class Reread(Generic[_Content]):
    """The content of files, which is read again when they change. For use from any thread.

    While the files are faulty, the earlier content stays, and the log says so once.

    Args:
        files: what is read; the log names the first one.
        read: returns their content, or raises InputError.
        kept: for the log, what holds while the files are faulty, such as "the earlier tokens stay valid".

    Attributes:
        faulty: whether the files were so at the last look.

    Raises:
        InputError: `read` raises it at the first time.
    """

    def __init__(self, files: Sequence[str | os.PathLike[str]], read: Callable[[], _Content], kept: str):
        self._files = files
        self._read = read
        self._kept = kept
        self._lock = threading.Lock()
        self._state = self._look()
        self._content = read()
        self.faulty = False

    def current(self) -> _Content:
        """Returns the content of now."""
        with self._lock:
            state = self._look()
            if state != self._state:
                self._state = state  # even of faulty files, which are reported once
                try:
                    self._content, self.faulty = self._read(), False
                    _LOGGER.info("%s: read again", self._files[0])
                except InputError as error:
                    self.faulty = True
                    _LOGGER.error("%s; %s", error, self._kept)
            return self._content

    def _look(self) -> tuple[tuple[int, ...] | None, ...]:
        """Returns values that change with the files, None for one that cannot be read."""
        states: list[tuple[int, ...] | None] = []
        for file in self._files:
            try:
                status = os.stat(file)
                states.append((status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino))
            except OSError:
                states.append(None)
        return tuple(states)

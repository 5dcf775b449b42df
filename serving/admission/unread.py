"""Bounds the answers that wait for callers who do not read."""

from serving.errors import ExhaustedError

SMALL_BYTES = 1024
"""Length up to which answers are not counted, as are the others only for as long as it takes to send them."""


class Unread:
    """Counts the bytes of answers that are being sent; for use in one thread.

    A caller may leave as many unread as are left to others, before further calls are refused: one caller half of all.

    Args:
        limit: bytes of all callers together.
    """

    def __init__(self, limit: int):
        self._limit = limit
        self._total = 0
        self._callers: dict[str, int] = {}

    @property
    def total(self) -> int:
        """The bytes that wait now."""
        return self._total

    def check(self, caller: str) -> None:
        """Refuses a call.

        Raises:
            ExhaustedError: the caller has left too much unread.
        """
        own = self._callers.get(caller, 0)
        if own and own > self._limit - self._total:
            raise ExhaustedError(f"{own} bytes of answers to earlier calls have not been read: read them first")

    def add(self, caller: str, size: int) -> None:
        """Counts an answer until `remove`."""
        self._total += size
        self._callers[caller] = self._callers.get(caller, 0) + size

    def remove(self, caller: str, size: int) -> None:
        """Counts an answer no more, as it has been read, or nobody will read it."""
        self._total -= size
        self._callers[caller] -= size
        if not self._callers[caller]:
            del self._callers[caller]

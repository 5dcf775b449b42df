"""Limits the rate at which each caller calls."""

import math
import time
from collections.abc import Callable

from serving.errors import QuotaError

BURST_SECONDS = 10.0
"""Over how long the rate counts: a caller who was quiet for so long may make as many calls at once."""
_MOST_CALLERS = 4096


class Quota:
    """The rate of each caller; for use in one thread.

    Args:
        calls_per_second: of one caller, on average; 0 sets no limit.
        now: returns the time in seconds.
    """

    def __init__(self, calls_per_second: float, now: Callable[[], float] = time.monotonic):
        self._seconds = 1 / calls_per_second if calls_per_second else 0.0
        self._ahead = max(BURST_SECONDS, self._seconds)
        self._now = now
        self._paid: dict[str, float] = {}  # the time up to which each caller has used the rate

    def take(self, caller: str) -> None:
        """Counts a call.

        Raises:
            QuotaError: the caller has made too many; it says when to try again.
        """
        if not self._seconds:
            return
        now = self._now()
        paid = max(self._paid.get(caller, 0.0), now - self._ahead) + self._seconds
        if paid > now:
            raise QuotaError(
                f"more than {1 / self._seconds:g} calls per second: this server limits the rate of each caller",
                math.ceil((paid - now) * 1000) / 1000,
            )
        if len(self._paid) >= _MOST_CALLERS and caller not in self._paid:
            self._forget(now)
        self._paid[caller] = paid

    def _forget(self, now: float) -> None:
        """Forgets callers who could make as many calls as new ones, or else all."""
        self._paid = {caller: paid for caller, paid in self._paid.items() if paid > now - self._ahead}
        if len(self._paid) >= _MOST_CALLERS:
            self._paid.clear()

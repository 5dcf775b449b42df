"""Bounds the memory of requests that are still arriving, each of which may turn out to have the largest size."""

import asyncio
import collections
from typing import Any

from serving.call import Call, current
from serving.calls.silence import Silence
from serving.errors import ExhaustedError

MOST_NEW = 8
"""How many requests may be read at a time, besides those that take longer than a moment."""
MOST_SLOW = 16
"""How many may take longer than a moment."""
MOMENT_SECONDS = 0.02
_WAIT_SECONDS = 1.0
_CROWDED = "too many requests are arriving at once: try again later"


class Arrivals:
    """Reads requests, a few at a time; for use on one event loop.

    Those that arrive last are read first: a crowd of large requests then does not keep back the small ones that come
    after it. If many take longer than a moment, those of the callers who send most are refused.

    Args:
        silence: reads a message, and can end the call while it waits for it.
    """

    def __init__(self, silence: Silence):
        self._silence = silence
        self._reading: dict[Any, Call] = {}  # in the order of their begin
        self._before: frozenset[Any] = frozenset()  # that were read at the last look
        self._slow: set[Any] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._coming = 0  # let in, and not yet reading
        self._timer: asyncio.TimerHandle | None = None

    async def read(self, context: Any) -> Any:
        """Returns the next message of a call.

        Raises:
            ExhaustedError: too many requests are arriving.
        """
        if len(self._reading) - len(self._slow) >= MOST_NEW:
            await self._wait()
        self._reading[context] = current()
        if len(self._reading) >= MOST_NEW and self._timer is None:
            self._look_soon()
        try:
            return await self._silence.read(context)
        finally:
            del self._reading[context]
            self._slow.discard(context)
            if self._waiting:
                self._let_in()

    async def _wait(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await asyncio.wait_for(turn, _WAIT_SECONDS)
        except asyncio.TimeoutError:
            raise ExhaustedError(_CROWDED) from None
        except asyncio.CancelledError:
            self._coming -= turn.done() and not turn.cancelled()
            self._let_in()
            raise
        self._coming -= 1

    def _let_in(self) -> None:
        while self._waiting and len(self._reading) - len(self._slow) + self._coming < MOST_NEW:
            turn = self._waiting.pop()
            if not turn.done():  # otherwise its caller has gone
                turn.set_result(None)
                self._coming += 1

    def _look_soon(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(MOMENT_SECONDS, self.look)

    def look(self) -> None:
        """Refuses requests that have been arriving since the last look, if there are too many, and lets others in."""
        slow = [context for context in self._reading if context in self._before]
        sent: collections.Counter[str] = collections.Counter()
        ranked = []
        for order, context in enumerate(slow):
            caller = self._reading[context].caller
            ranked.append((sent[caller], order, context))
            sent[caller] += 1
        for _, _, context in sorted(ranked, key=lambda entry: entry[:2])[MOST_SLOW:]:
            self._silence.end(context, self._reading[context], ExhaustedError(_CROWDED))
        self._slow, self._before = set(slow), frozenset(self._reading)
        self._timer = None
        self._let_in()
        if len(self._reading) >= MOST_NEW:
            self._look_soon()

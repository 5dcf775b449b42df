"""Bounds the memory of requests that are still arriving, each of which may turn out to have the largest size."""

import asyncio
import collections
import time
from typing import Any

from grpc.aio import EOF

from serving.admission.idle_timeout import IdleTimeout
from serving.call import Call, current
from serving.errors import ExhaustedError

MOST_NEW = 8
"""How many requests may be read at a time, besides those that take longer than a moment."""
MOST_AMONG_LARGE = 2
"""How many, while large requests arrive: gRPC copies each on the event loop, which takes milliseconds."""
LARGE_ARRIVAL_BYTES = 256 * 1024
"""Length from which a request is large in this respect."""
MOST_SLOW = 16
"""How many may take longer than a moment."""
MOMENT_SECONDS = 0.02
_WAIT_SECONDS = 1.0
_MEMORY_SECONDS = 1.0
_FORGETTING = 4  # divides what a caller has sent, every `_MEMORY_SECONDS`
_CROWDED = "too many requests are arriving at once: try again later"


class Arrivals:
    """Reads requests, a few at a time; for use on one event loop.

    Callers who have sent little lately come first, then new ones, then those who have sent much; among equals, the last
    to arrive. A crowd of large requests then does not keep back the small ones that come after it. If many take longer
    than a moment, those of the callers who send most are refused.
    """

    def __init__(self, idle_timeout: IdleTimeout):
        self._idle_timeout = idle_timeout
        self._reading: dict[Any, Call] = {}  # in the order of their begin
        self._before: frozenset[Any] = frozenset()  # that were read at the last look
        self._slow: set[Any] = set()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []  # callers and their turns
        self._coming = 0  # let in, and not yet reading
        self._sent: dict[str, int] = {}  # bytes of each caller, see `_note`
        self._counted_from = 0.0
        self._last_large = -_MEMORY_SECONDS
        self._timer: asyncio.TimerHandle | None = None

    async def read(self, context: Any) -> Any:
        """Returns the next message of a call.

        Raises:
            ExhaustedError: too many requests are arriving.
        """
        call = current()
        if len(self._reading) - len(self._slow) >= self._most():
            await self._wait(call.caller)
        self._reading[context] = call
        if len(self._reading) >= self._most() and self._timer is None:
            self._look_soon()
        try:
            data = await self._idle_timeout.read(context)
            if data is not EOF:
                self._note(call.caller, len(data))
            return data
        finally:
            del self._reading[context]
            self._slow.discard(context)
            if self._waiting:
                self._let_in()

    def _most(self) -> int:
        return MOST_AMONG_LARGE if time.monotonic() < self._last_large + _MEMORY_SECONDS else MOST_NEW

    def _note(self, caller: str, size: int) -> None:
        """Counts what a caller has sent; what was sent longer ago counts less."""
        now = time.monotonic()
        if now > self._counted_from + _MEMORY_SECONDS:
            self._sent = {each: sent // _FORGETTING for each, sent in self._sent.items() if sent}
            self._counted_from = now
        self._sent[caller] = self._sent.get(caller, 0) + size
        if size >= LARGE_ARRIVAL_BYTES:
            self._last_large = now

    async def _wait(self, caller: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((caller, turn))
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
        while self._waiting and len(self._reading) - len(self._slow) + self._coming < self._most():
            _, turn = self._waiting.pop(self._first())
            if not turn.done():  # otherwise its caller has gone
                turn.set_result(None)
                self._coming += 1

    def _first(self) -> int:
        """Returns who of those that wait comes first; who is new may send a large request."""
        return min(
            range(len(self._waiting)),
            key=lambda place: (self._sent.get(self._waiting[place][0], LARGE_ARRIVAL_BYTES), -place),
        )

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
            self._idle_timeout.end(context, self._reading[context], ExhaustedError(_CROWDED))
        self._slow, self._before = set(slow), frozenset(self._reading)
        self._timer = None
        self._let_in()
        if len(self._reading) >= self._most():
            self._look_soon()

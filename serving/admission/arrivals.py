"""Bounds the memory of requests that are still arriving, each of which may turn out to have the largest size."""

import asyncio
import collections
import time
from typing import Any

from grpc.aio import EOF

from serving.admission.idle_timeout import IdleTimeout
from serving.call import Call, current
from serving.errors import ExhaustedError
from serving.fair_queue import FairPlaces

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
_MANY = 1024
_CROWDED = "too many requests are arriving at once: try again later"


class Arrivals:
    """Reads requests, a few at a time; for use on one event loop.

    Others wait for their turn, in which a caller's turn costs what its last request held, so that a crowd of large
    requests does not keep back small ones. If many take longer than a moment, those of who has most are refused.
    """

    def __init__(self, idle_timeout: IdleTimeout):
        self._idle_timeout = idle_timeout
        self._places = FairPlaces(self._most)
        self._timers: dict[Any, asyncio.TimerHandle] = {}  # of the requests that have a place, for a moment
        self._slow: dict[Any, Call] = {}
        self._sizes: dict[str, int] = {}  # of each caller's last request; who is new may send a large one
        self._last_large = -_MEMORY_SECONDS

    async def read(self, context: Any) -> Any:
        """Returns the next message of a call.

        Raises:
            ExhaustedError: too many requests are arriving.
        """
        call = current()
        try:
            cost = 1 + self._sizes.get(call.caller, LARGE_ARRIVAL_BYTES)
            await self._places.take(call.caller, cost, _WAIT_SECONDS)
        except asyncio.TimeoutError:
            raise ExhaustedError(_CROWDED) from None
        loop = asyncio.get_running_loop()
        self._timers[context] = loop.call_later(MOMENT_SECONDS, self._set_aside, context, call)
        try:
            data = await self._idle_timeout.read(context)
            if data is not EOF:
                self._note(call.caller, len(data))
            return data
        finally:
            self._slow.pop(context, None)
            if timer := self._timers.pop(context, None):
                timer.cancel()
                self._places.leave()

    def _most(self) -> int:
        return MOST_AMONG_LARGE if time.monotonic() < self._last_large + _MEMORY_SECONDS else MOST_NEW

    def _note(self, caller: str, size: int) -> None:
        if len(self._sizes) > _MANY:
            self._sizes.clear()
        self._sizes[caller] = size
        if size >= LARGE_ARRIVAL_BYTES:
            self._last_large = time.monotonic()

    def _set_aside(self, context: Any, call: Call) -> None:
        """Frees the place of a request that takes longer than a moment, and refuses one where there are too many."""
        del self._timers[context]
        self._places.leave()
        self._slow[context] = call
        if len(self._slow) > MOST_SLOW:
            # The newest first: of callers who have as many, the last to arrive is refused, so that others can end.
            callers = {each: self._slow[each].caller for each in reversed(self._slow)}
            [(caller, _)] = collections.Counter(callers.values()).most_common(1)
            last = next(each for each in callers if callers[each] == caller)
            self._idle_timeout.end(last, self._slow.pop(last), ExhaustedError(_CROWDED))

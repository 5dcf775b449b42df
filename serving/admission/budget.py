"""Bounds what large requests hold of memory and processor time, and shares it fairly between callers.

One large request takes tens of megabytes once it is parsed, and Python works on it for tenths of a second. So only a
few are worked on at a time. Others wait as the bytes that arrived, as far as there is room, or are refused. Receiving
one only to refuse it takes milliseconds too: callers who come back before they were told to wait for their refusal, and
so do those whose large requests are faulty.
"""

import asyncio
import collections
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, TypeVar

from serving import call as calls
from serving.errors import ExhaustedError
from serving.fair_queue import FairQueue

_Method = TypeVar("_Method", bound=Callable[..., Any])

LARGE_BYTES = 16 * 1024
"""Length from which requests go to the workers; handing shorter ones over takes longer than handling them."""
LARGE_STATES = 64
"""Number of evidence states above which a request is large, whatever its length."""

_LONGEST_RETRY_SECONDS = 60.0
_REFUSALS_PER_SECOND = 25.0
_REFUSALS_AT_ONCE = 10
_LONGEST_HOLD_SECONDS = 5.0
_FIRST_GUESS_SECONDS = 0.25  # of a turn
_NEWEST = 0.2  # weight of the last turn in the mean duration


class Cost(NamedTuple):
    """What a request holds."""

    states: int
    size: int  # bytes

    @property
    def is_large(self) -> bool:
        """Whether the request needs a turn."""
        return self.size > LARGE_BYTES or self.states > LARGE_STATES


def costs(measure: Callable[[Any], Cost]) -> Callable[[_Method], _Method]:
    """Marks a method whose requests may cost more than their length says; `measure` tells what one costs."""

    def mark(method: _Method) -> _Method:
        method.cost_of = measure  # type: ignore[attr-defined]
        return method

    return mark


DEFAULT_PENDING = Cost(states=16 * 1024, size=32 * 1024 * 1024)


class Pace:
    """How often refusals of large requests end: a few at once, and then so many a second."""

    def __init__(self) -> None:
        self._next = 0.0

    def hold_seconds(self) -> float:
        """Returns how long the next refusal is to be held back."""
        now = time.monotonic()
        self._next = max(self._next, now - _REFUSALS_AT_ONCE / _REFUSALS_PER_SECOND) + 1 / _REFUSALS_PER_SECOND
        return min(max(self._next - now, 0.0), _LONGEST_HOLD_SECONDS)


class Budget:
    """What all large requests together may hold; for use on one event loop.

    A caller may hold as much as is left, so that there is always room for another: one caller alone gets half, and each
    of n callers 1/(n + 1). A request is accepted, too, if it is the only one.

    Args:
        limit: the largest sum.
        turns: number of requests that are worked on at a time.
        pace: of refusals.
    """

    def __init__(self, limit: Cost, turns: int, pace: Pace):
        self._limit = limit
        self._turns = turns
        self._busy = 0
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self._held: dict[str, Cost] = {}
        self._seconds = _FIRST_GUESS_SECONDS
        self._refused: collections.deque[float] = collections.deque()  # when those callers are to come back
        self._pace = pace

    @property
    def held(self) -> Cost:
        """The sum of what is held now."""
        return Cost(sum(cost.states for cost in self._held.values()), sum(cost.size for cost in self._held.values()))

    @contextlib.asynccontextmanager
    async def turn(self, call: calls.Call, cost: Cost) -> AsyncIterator[None]:
        """Waits for a turn, and holds it and `cost` for the length of an `async with` block.

        Raises:
            ExhaustedError: there is no room; it says when to try again.
        """
        accepted = time.perf_counter()
        self._accept(call.caller, cost)
        try:
            await self._wait(call.caller, cost)
            begin = time.perf_counter()
            call.add(calls.QUEUE, accepted, begin)
            call.large = call.had_turn = True
            try:
                yield
            finally:
                call.large = False
                self._seconds += _NEWEST * (time.perf_counter() - begin - self._seconds)
                self._next()
        finally:
            self._change(call.caller, Cost(-cost.states, -cost.size))

    def _accept(self, caller: str, cost: Cost) -> None:
        total, own = self.held, self._held.get(caller, Cost(0, 0))
        fits = all(
            mine + more <= limit - held for mine, more, limit, held in zip(own, cost, self._limit, total, strict=True)
        )
        if not fits and self._held:
            raise ExhaustedError(
                f"large requests of {total.size} bytes and {total.states} states are in progress, and no more are "
                "accepted: try again later, or send fewer states per call",
                self._retry_seconds(),
                self._pace.hold_seconds(),
            )
        self._change(caller, cost)

    def _retry_seconds(self) -> float:
        """Returns in how many seconds a refused caller is to try again."""
        now = time.monotonic()
        while self._refused and self._refused[0] < now:
            self._refused.popleft()
        # After those that wait, and after those that were told so before.
        ahead = len(self._waiting) + self._busy + len(self._refused)
        seconds = min(max(math.ceil(ahead * self._seconds / self._turns), 1.0), _LONGEST_RETRY_SECONDS)
        self._refused.append(now + seconds)
        return seconds

    def _change(self, caller: str, by: Cost) -> None:
        own = self._held.pop(caller, Cost(0, 0))
        left = Cost(own.states + by.states, own.size + by.size)
        if any(left):
            self._held[caller] = left

    async def _wait(self, caller: str, cost: Cost) -> None:
        if self._busy < self._turns:
            self._busy += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(caller, turn, 1 + cost.size / LARGE_BYTES + cost.states / LARGE_STATES)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._next()  # it came just now
            raise

    def _next(self) -> None:
        """Hands the turn that ends to the next request whose caller still waits."""
        while self._waiting:
            turn = self._waiting.pop()
            if not turn.done():
                turn.set_result(None)
                return
        self._busy -= 1

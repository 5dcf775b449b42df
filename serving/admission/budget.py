"""Bounds what large requests hold of memory and processor time, and shares it fairly between callers.

One large request takes tens of megabytes once it is parsed, and Python works on it for tenths of a second. So only a
few are worked on at a time. Others wait as the bytes that arrived, as far as there is room, or are refused. Receiving
one only to refuse it takes milliseconds too: callers who come back before they were told to wait for their refusal, and
so do those whose large requests are faulty.
"""

import collections
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, TypeVar

from serving import call as calls
from serving.errors import ExhaustedError
from serving.fair_queue import FairPlaces

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


NOTHING = Cost(states=0, size=0)
DEFAULT_PENDING = Cost(states=16 * 1024, size=32 * 1024 * 1024)


class Pace:
    """How often refusals of large requests end: a few at once, and then so many a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._next = 0.0

    def hold_seconds(self) -> float:
        """Returns how long the next refusal is to be held back."""
        now = self._clock()
        self._next = max(self._next, now - _REFUSALS_AT_ONCE / _REFUSALS_PER_SECOND) + 1 / _REFUSALS_PER_SECOND
        return min(max(self._next - now, 0.0), _LONGEST_HOLD_SECONDS)


class Shares:
    """What callers hold, of large requests or of answers that they have not read; for use in one thread.

    A caller may hold as much as is left, so that there is always room for another: one caller alone gets half, and each
    of n callers 1/(n + 1).
    """

    def __init__(self, limit: Cost):
        self._limit = limit
        self._held: dict[str, Cost] = {}
        self.total = NOTHING
        """The sum of what is held now."""

    def held_by(self, caller: str) -> Cost:
        """Returns what a caller holds."""
        return self._held.get(caller, NOTHING)

    def has_room(self, caller: str, more: Cost) -> bool:
        """Whether a caller may hold that much more."""
        return all(
            own + added <= limit - total
            for own, added, limit, total in zip(self.held_by(caller), more, self._limit, self.total, strict=True)
        )

    def add(self, caller: str, cost: Cost) -> None:
        """Counts what a caller holds until it is removed."""
        self._change(caller, cost)

    def remove(self, caller: str, cost: Cost) -> None:
        """Counts no more what was added."""
        self._change(caller, Cost(-cost.states, -cost.size))

    def _change(self, caller: str, by: Cost) -> None:
        self.total = _sum(self.total, by)
        own = _sum(self._held.pop(caller, NOTHING), by)
        if any(own):
            self._held[caller] = own


def _sum(first: Cost, second: Cost) -> Cost:
    return Cost(first.states + second.states, first.size + second.size)


class Budget:
    """What all large requests together may hold; for use on one event loop.

    Of the callers each may hold its share, see `Shares`. A request is accepted, too, if it is the only one.

    So many `turns` are worked on at a time.
    """

    def __init__(self, limit: Cost, turns: int, pace: Pace):
        self.shares = Shares(limit)
        self._turns = turns
        self._places = FairPlaces(lambda: turns)
        self._seconds = _FIRST_GUESS_SECONDS
        self._refused: collections.deque[float] = collections.deque()  # when those callers are to come back
        self._pace = pace

    @contextlib.asynccontextmanager
    async def turn(self, call: calls.Call, cost: Cost) -> AsyncIterator[None]:
        """Waits for a turn, and holds it and `cost` for the length of an `async with` block.

        Raises:
            ExhaustedError: there is no room; it says when to try again.
        """
        accepted = time.perf_counter()
        self._accept(call.caller, cost)
        try:
            await self._places.take(call.caller, 1 + cost.size / LARGE_BYTES + cost.states / LARGE_STATES)
            begin = time.perf_counter()
            call.add(calls.QUEUE, accepted, begin)
            call.large = call.had_turn = True
            try:
                yield
            finally:
                call.large = False
                self._seconds += _NEWEST * (time.perf_counter() - begin - self._seconds)
                self._places.leave()
        finally:
            self.shares.remove(call.caller, cost)

    def _accept(self, caller: str, cost: Cost) -> None:
        total = self.shares.total
        if any(total) and not self.shares.has_room(caller, cost):
            raise ExhaustedError(
                f"large requests of {total.size} bytes and {total.states} states are in progress, and no more are "
                "accepted: try again later, or send fewer states per call",
                self._retry_seconds(),
                self._pace.hold_seconds(),
            )
        self.shares.add(caller, cost)

    def _retry_seconds(self) -> float:
        """Returns in how many seconds a refused caller is to try again."""
        now = time.monotonic()
        while self._refused and self._refused[0] < now:
            self._refused.popleft()
        # After those that wait, and after those that were told so before.
        ahead = self._places.wanted + len(self._refused)
        seconds = min(max(math.ceil(ahead * self._seconds / self._turns), 1.0), _LONGEST_RETRY_SECONDS)
        self._refused.append(now + seconds)
        return seconds

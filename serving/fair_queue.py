"""Queues in which callers take turns, regardless of how much each asks for."""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_MANY = 1024


class FairQueue(Generic[_Item]):
    """Weighted fair queueing: each caller gets the same share, and its items come out in their order.

    An item's turn comes when its caller would have got its cost if all callers were served at once, each at the same
    rate. So an item that costs little passes others that cost much, and none waits forever. For use in one thread.
    """

    def __init__(self) -> None:
        self._items: list[tuple[float, int, _Item]] = []  # a heap by turn
        self._numbers = itertools.count()
        self._now = 0.0  # the turn of the last item that came out
        self._last: dict[str, float] = {}  # caller -> turn of its last item

    def __len__(self) -> int:
        return len(self._items)

    def put(self, caller: str, item: _Item, cost: float) -> None:
        """Adds an item; `cost` is above 0, in any unit."""
        turn = max(self._now, self._last.get(caller, 0.0)) + cost
        self._last[caller] = turn
        heapq.heappush(self._items, (turn, next(self._numbers), item))

    @property
    def first(self) -> _Item:
        """The next item; IndexError if there is none."""
        return self._items[0][2]

    def pop(self) -> _Item:
        """Removes and returns the next item; IndexError if there is none."""
        self._now, _, item = heapq.heappop(self._items)
        if not self._items:
            self._now = 0.0
            self._last.clear()
        elif len(self._last) > _MANY:
            self._last = {caller: turn for caller, turn in self._last.items() if turn > self._now}
        return item


class FairPlaces:
    """Places, at most as many as `most` returns, for which callers wait in a `FairQueue`; for use on one event loop."""

    def __init__(self, most: Callable[[], int]):
        self._most = most
        self._taken = 0
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()

    @property
    def wanted(self) -> int:
        """The number of places that are taken or waited for."""
        return self._taken + len(self._waiting)

    async def take(self, caller: str, cost: float, seconds: float | None = None) -> None:
        """Takes a place when the caller's turn comes, which `leave` gives back.

        Raises:
            asyncio.TimeoutError: it does not come within so many seconds.
        """
        if self._taken < self._most():
            self._taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(caller, turn, cost)
        try:
            await asyncio.wait_for(turn, seconds)
        except (asyncio.CancelledError, asyncio.TimeoutError):
            if turn.done() and not turn.cancelled():
                self.leave()  # it came just now
            raise

    def leave(self) -> None:
        """Gives a place back, and hands out those that are free."""
        self._taken -= 1
        while self._waiting and self._taken < self._most():
            turn = self._waiting.pop()
            if not turn.done():  # otherwise its caller has gone
                turn.set_result(None)
                self._taken += 1

"""Decides which calls are answered, and when; every protocol asks the one `Admission` of a server."""

import asyncio
import contextlib
import time
from typing import Any, NoReturn

from schemas.errors import InputError
from serving.admission.budget import DEFAULT_PENDING, NOTHING, Budget, Cost, Pace, Shares
from serving.call import Call
from serving.errors import ExhaustedError, UnavailableError
from serving.security import Access

_TURNS = 1  # of large requests: with two at a time, small calls wait twice as long
_AT_ONCE = contextlib.nullcontext()
_SHUTTING_DOWN = "the server is shutting down: call another one, or this one later"
_QUIET_SECONDS = 0.05
_LONGEST_QUIET_WAIT_SECONDS = 0.5


class ConcurrencyLimit:
    """Places for calls; for use in one thread.

    When all are taken, a quarter more is kept for callers who have none, so that one cannot keep the others out.
    """

    def __init__(self, number: int):
        self._number = number
        self._more = number // 4
        self._taken = 0
        self._callers: dict[str, int] = {}

    @property
    def taken(self) -> int:
        """The number of calls held now."""
        return self._taken

    def take(self, caller: str) -> None:
        """Takes a place, which `leave` gives back.

        Raises:
            ExhaustedError: all places are taken; do not call `leave`.
        """
        own = self._callers.get(caller, 0)
        if self._taken >= self._number + (0 if own else self._more):
            raise ExhaustedError(
                f"{self._taken} calls are running or waiting, and no more are accepted: try again later"
            )
        self._taken += 1
        self._callers[caller] = own + 1

    def leave(self, caller: str) -> None:
        """Gives a place back."""
        self._taken -= 1
        if self._callers[caller] == 1:
            del self._callers[caller]
        else:
            self._callers[caller] -= 1


class Drain:
    """The end of a server: holds back calls that still arrive, and then refuses them; for use on one event loop.

    gRPC ends calls that arrive while it shuts down with CANCELLED, which tells nobody to try again. So new calls are
    held back until none arrive; then gRPC shuts down, which tells all clients to connect elsewhere; then they are
    refused with UNAVAILABLE, so that their callers try again elsewhere.

    Attributes:
        begun: whether to `hold_back` new calls.
    """

    def __init__(self) -> None:
        self.begun = False
        self._came_late = True
        self._refusing = asyncio.Event()

    async def begin(self) -> None:
        """Returns when no more calls arrive, after half a second at most."""
        self.begun, end = True, time.monotonic() + _LONGEST_QUIET_WAIT_SECONDS
        while self._came_late and time.monotonic() < end:
            self._came_late = False
            await asyncio.sleep(_QUIET_SECONDS)

    def refuse(self) -> None:
        """Ends the calls that are held back, and lets none wait from now on."""
        self._refusing.set()

    async def hold_back(self) -> NoReturn:
        """Raises UnavailableError when it is time to."""
        self._came_late = True
        await self._refusing.wait()
        raise UnavailableError(_SHUTTING_DOWN)


class Admission:
    """Admits calls to a server; for use on one event loop.

    Args:
        access: decides who may call what.
        calls: largest number of calls at a time.
        pending: what large requests may hold together, see `serving.admission.budget.Budget`; so may unread answers.

    Attributes:
        pace: how often refusals of large requests end.
        concurrency: the calls in progress.
        unread: answers that their callers have not read, by their bytes.
        drain: the end of the server, from which on calls are refused.
    """

    def __init__(self, access: Access, calls: int, pending: Cost = DEFAULT_PENDING):
        self._access = access
        self.pace = Pace()
        self._budget = Budget(pending, _TURNS, self.pace)
        self.concurrency = ConcurrencyLimit(calls)
        self.unread = Shares(pending)
        self.drain = Drain()

    async def enter(self, call: Call) -> None:
        """Admits a call, which is in progress until it `leave`s.

        Raises:
            UnavailableError: the server is shutting down.
            UnauthenticatedError: the call has no valid token; ForbiddenError if its token does not permit it.
            ExhaustedError: too many calls are in progress, or the caller leaves too much unread.
        """
        if self.drain.begun:
            await self.drain.hold_back()
        request = call.request
        call.caller, call.models = self._access.check(request.method, request.peer, request.metadata)
        self.check_unread(call.caller)
        self.concurrency.take(call.caller)

    def check_unread(self, caller: str) -> None:
        """Refuses a call.

        Raises:
            ExhaustedError: the caller has left too much unread.
        """
        own = self.unread.held_by(caller).size
        if own and not self.unread.has_room(caller, NOTHING):
            raise ExhaustedError(f"{own} bytes of answers to earlier calls have not been read: read them first")

    def leave(self, call: Call) -> None:
        """Ends a call that was admitted."""
        self.concurrency.leave(call.caller)

    def turn(self, call: Call, cost: Cost) -> contextlib.AbstractAsyncContextManager[Any]:
        """Returns a context manager that waits for a turn if a request is large, and holds it for its block.

        Raises:
            ExhaustedError: there is no room for it; it says when to try again.
        """
        return self._budget.turn(call, cost) if cost.is_large and not call.large else _AT_ONCE

    async def hold_back(self, call: Call, error: Exception) -> None:
        """Waits before a call ends with `error`, if its caller would otherwise send as much again too soon."""
        seconds = 0.0
        if isinstance(error, ExhaustedError):
            seconds = error.hold_seconds
        elif isinstance(error, InputError) and call.had_turn:
            seconds = self.pace.hold_seconds()
        if seconds:
            error.__traceback__ = None  # it holds the request
            await asyncio.sleep(seconds)

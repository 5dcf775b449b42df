"""Decides which calls are answered, and when; every protocol asks the one `Admission` of a server."""

import asyncio
import contextlib
import dataclasses
from typing import Any

from schemas.errors import InputError
from serving.admission.budget import DEFAULT_PENDING, NOTHING, Budget, Cost, Pace, Shares
from serving.admission.concurrency import ConcurrencyLimit
from serving.admission.drain import Drain
from serving.call import Call
from serving.errors import ExhaustedError
from serving.security import Access

_TURNS = 1  # of large requests: with two at a time, small calls wait twice as long
_AT_ONCE = contextlib.nullcontext()


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits on calls.

    Attributes:
        calls: largest number of calls at a time.
        pending: what large requests may hold together, see `serving.admission.budget.Budget`; so may unread answers.
    """

    calls: int
    pending: Cost = DEFAULT_PENDING


class Admission:
    """Admits calls to a server; for use on one event loop.

    Args:
        limits: limits on calls.
        access: who may call what.

    Attributes:
        pace: of refusals.
        concurrency: the calls in progress.
        unread: answers that their callers have not read, by their bytes.
        drain: the end of the server, from which on calls are refused.
    """

    def __init__(self, limits: Limits, access: Access):
        self._access = access
        self.pace = Pace()
        self._budget = Budget(limits.pending, _TURNS, self.pace)
        self.concurrency = ConcurrencyLimit(limits.calls)
        self.unread = Shares(limits.pending)
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
        call.caller, call.models = self._access.check(call.method, call.peer, call.metadata)
        self.check_unread(call.caller)
        self.concurrency.take(call.caller)
        call.admitted = True

    def check_unread(self, caller: str) -> None:
        """Refuses a call.

        Raises:
            ExhaustedError: the caller has left too much unread.
        """
        own = self.unread.held_by(caller).size
        if own and not self.unread.has_room(caller, NOTHING):
            raise ExhaustedError(f"{own} bytes of answers to earlier calls have not been read: read them first")

    def leave(self, call: Call) -> None:
        """Ends a call; does nothing for one that was not admitted."""
        if call.admitted:
            call.admitted = False
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

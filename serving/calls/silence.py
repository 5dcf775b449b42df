"""Cuts clients off that went silent: whose machine is gone, or that do not send what they began to send."""

import asyncio
from typing import Any

import grpc

_LONGEST = 2**30 - 1  # milliseconds, twice which gRPC takes


def options(seconds: float) -> list[tuple[str, int]]:
    """Returns gRPC's options for a server that gives up a connection on which nothing comes for so long."""
    half = min(max(1, int(seconds * 500)), _LONGEST)
    return [
        # After half of the time the client is asked whether it is there, and has as long to answer. Its kernel cannot.
        ("grpc.keepalive_time_ms", half),
        ("grpc.keepalive_timeout_ms", half),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),  # otherwise a connection without calls is asked twice only
        ("grpc.http2.ping_timeout_ms", half),
        ("grpc.server_handshake_timeout_ms", 2 * half),
    ]


class Silence:
    """Ends calls whose request does not come; their callers get CANCELLED. To be used on one event loop.

    Args:
        seconds: how long a call may be without its request, less up to a half.
    """

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._reads = 0
        self._waiting: dict[Any, int] = {}  # from context to the number of what is read, as a stream is read often
        self._seen: set[tuple[Any, int]] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def read(self, context: "grpc.aio.ServicerContext[Any, Any]") -> Any:
        """Returns what comes next of a call, as the context's own `read`, which raises where the call was ended."""
        self._reads += 1
        self._waiting[context] = self._reads
        try:
            return await context.read()
        finally:
            del self._waiting[context]

    async def watch(self) -> None:
        """Looks after the calls until it is cancelled."""
        while True:
            await asyncio.sleep(self._seconds / 2)
            self.look()

    def look(self) -> None:
        """Ends what was waited for at the last look already."""
        silent = self._waiting.items() & self._seen
        for context, read in silent:
            # A task each: the end of a call may itself wait for a caller that takes nothing.
            task = asyncio.create_task(self._cut_off(context, read))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        self._seen = self._waiting.items() - silent

    async def _cut_off(self, context: "grpc.aio.ServicerContext[Any, Any]", read: int) -> None:
        if self._waiting.get(context) == read:  # else something has just come
            try:
                await context.abort(grpc.StatusCode.CANCELLED, "the request did not come")
            except grpc.aio.BaseError as aborted:  # always, also where the call has ended by itself
                let_go(aborted)


def let_go(aborted: grpc.aio.BaseError) -> None:
    """Takes the stack from what `abort` raised, for whoever catches it; gRPC raises it again when the call returns.

    A call keeps the exception that ended it, and the stack's frames keep the call. So it would stay until the next
    garbage collection of everything, and gRPC refuses further calls of a connection of which too many are there.
    """
    aborted.__traceback__ = None

"""Cuts off silent clients: those that have gone away, or do not finish sending their request."""

import asyncio
from typing import Any

import grpc

from serving import call as calls
from serving.admission.status import end_of

_LONGEST = 2**30 - 1  # milliseconds; gRPC accepts twice as many
IDLE_FACTOR = 15
"""How many times as long a client may keep a connection without a call, on which it answers pings."""

HANDSHAKE_SECONDS = 5.0
"""The longest time for what comes before the first request, such as TLS's, in which nobody is known."""

UNSEEN_SECONDS = 5
"""How long a call may wait for the event loop, which looks at each at once unless it hangs or thousands are waiting."""


def options(seconds: float) -> list[tuple[str, int]]:
    """Returns gRPC's options for a server that closes a connection on which nothing arrives for `seconds`.

    It also closes one without a call for `IDLE_FACTOR` times as long, which clients open again for their next call. It
    holds no more of a request than arrives.
    """
    half = min(max(1, int(seconds * 500)), _LONGEST)
    return [
        # After half the time the server pings the client, whose process has the other half to answer.
        ("grpc.keepalive_time_ms", half),
        ("grpc.keepalive_timeout_ms", half),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),  # by default only two pings go to a connection without calls
        ("grpc.http2.ping_timeout_ms", half),
        ("grpc.max_connection_idle_ms", min(2 * IDLE_FACTOR * half, _LONGEST)),
        ("grpc.server_handshake_timeout_ms", min(2 * half, int(1000 * HANDSHAKE_SECONDS))),
        # A call that this process has not looked at by then ends. Until then gRPC holds also those of connections that
        # have been closed, of which any number may follow each other: by default for 30 seconds.
        ("grpc.server_max_unrequested_time_in_server", UNSEEN_SECONDS),
        # Without strikes gRPC stops reading from a client that leaves 10,000 answers to pings unread. With them it
        # writes each a farewell of more than a kilobyte, without end.
        ("grpc.http2.max_ping_strikes", 0),
        # Before a request is read gRPC holds 64 KiB of it, and with this it never holds more.
        ("grpc.http2.bdp_probe", 0),
        # Nothing compressed: gRPC compares the size of a message with the limit once it is decompressed.
        ("grpc.compression_enabled_algorithms_bitset", 1),
    ]


class IdleTimeout:
    """Ends calls whose request does not arrive, with CANCELLED; for use on one event loop.

    Args:
        seconds: the longest time without a request; a call may be ended after half of it.
    """

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._reads = 0
        self._waiting: dict[Any, int] = {}  # context -> number of its current read, as streams read often
        self._seen: set[tuple[Any, int]] = set()
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """The number of calls whose next message is waited for."""
        return len(self._waiting)

    async def read(self, context: "grpc.aio.ServicerContext[Any, Any]") -> Any:
        """Returns the next message of a call, as the context's own `read`, which raises if the call was ended."""
        self._reads += 1
        self._waiting[context] = self._reads
        try:
            return await context.read()
        finally:
            del self._waiting[context]

    async def watch(self) -> None:
        """Ends silent calls until it is cancelled."""
        while True:
            await asyncio.sleep(self._seconds / 2)
            self.look()

    def look(self) -> None:
        """Ends the calls that have been waiting since the last look."""
        silent = self._waiting.items() & self._seen
        for context, read in silent:
            self._begin_to_end(context, read)
        self._seen = self._waiting.items() - silent

    def end(self, context: Any, call: calls.Call, error: Exception) -> None:
        """Ends a call whose next message is waited for, with the status of `error`, and notes the reason in `call`."""
        if context in self._waiting:
            self._begin_to_end(context, self._waiting[context], call, error)

    def _begin_to_end(self, context: Any, read: int, *reason: Any) -> None:
        # A task each, as ending a call may itself wait for a caller that reads nothing.
        task = asyncio.create_task(self._cut_off(context, read, *reason))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _cut_off(
        self, context: Any, read: int, call: calls.Call | None = None, error: Exception | None = None
    ) -> None:
        if self._waiting.get(context) == read:  # otherwise a message has just arrived
            try:
                if call is None or error is None:
                    await context.abort(grpc.StatusCode.CANCELLED, "the request did not arrive")
                else:
                    calls.enter(call)
                    status, metadata = end_of(error, call.request.method)
                    await context.abort(status.code, status.message, metadata)
            except grpc.aio.BaseError as aborted:  # abort always raises, even if the call has ended by itself
                drop_traceback(aborted)


def drop_traceback(aborted: grpc.aio.BaseError) -> None:
    """Removes the traceback from what `abort` raised; gRPC raises it again when the call returns.

    A call refers to the exception that ended it, and the traceback's frames refer to the call. Such cycles would stay
    until the next full garbage collection, and gRPC refuses calls on a connection that has too many.
    """
    aborted.__traceback__ = None

"""`grpc.health.v1.Health` on the event loop, with the statuses of a HealthServicer that any thread may set."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from schemas.errors import InputError
from serving.admission.admission import ConcurrencyLimit
from serving.security import caller_at

MOST_WATCHES = 256
"""At a time, one for each connection; gRPC holds some 27 KB for each, and nobody needs a token for it."""
_LONGEST_REQUEST = 256  # bytes
_NOT_SERVED = "not served"


class HealthService(health_pb2_grpc.HealthServicer):
    """Answers from `servicer`, whose own Watch is for servers with threads.

    gRPC's servicer for asyncio stops updating all watchers of a service when one of them leaves.
    """

    def __init__(self, servicer: health.HealthServicer):
        self._servicer = servicer
        self._watches = ConcurrencyLimit(MOST_WATCHES)

    async def Check(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> health_pb2.HealthCheckResponse:
        """Returns the status of a service."""
        return self._servicer.Check(request, context)

    async def Watch(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Sends the status of a service, and each change of it; for one that is not served, SERVICE_UNKNOWN alone.

        Raises:
            ExhaustedError: there are too many watches.
            InputError: the request is longer than any that asks for a service, and would be held for long.
        """
        if request.ByteSize() > _LONGEST_REQUEST:
            raise InputError(f"the request has more than {_LONGEST_REQUEST} bytes: name a service that is served")
        loop, statuses, closing = asyncio.get_running_loop(), asyncio.Queue[Any](), _Closing()
        if not self._servicer.Check(request, closing).status:
            request.service = _NOT_SERVED  # the servicer never forgets a name
        caller = caller_at(context.peer())
        self._watches.take(caller)
        try:
            self._servicer.Watch(
                request, closing, lambda response: loop.call_soon_threadsafe(statuses.put_nowait, response)
            )
            while True:
                yield await statuses.get()
        finally:
            closing.close()
            self._watches.leave(caller)


class _Closing(contextlib.ExitStack):
    """The part of a context that HealthServicer needs to watch: callbacks for the end of the call."""

    add_callback = contextlib.ExitStack.callback

    def set_code(self, code: object) -> None:
        """Does nothing, as a service that is not served does not end the call."""

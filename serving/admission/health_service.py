"""`grpc.health.v1.Health` on the event loop, with the statuses of a HealthServicer that any thread may set."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc


class HealthService(health_pb2_grpc.HealthServicer):
    """Answers from `servicer`, whose own Watch is for servers with threads.

    gRPC's servicer for asyncio stops updating all watchers of a service when one of them leaves.
    """

    def __init__(self, servicer: health.HealthServicer):
        self._servicer = servicer

    async def Check(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> health_pb2.HealthCheckResponse:
        """Returns the status of a service."""
        return self._servicer.Check(request, context)

    async def Watch(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Sends the status of a service, and each change of it."""
        loop, statuses, closing = asyncio.get_running_loop(), asyncio.Queue[Any](), _Closing()
        self._servicer.Watch(
            request, closing, lambda response: loop.call_soon_threadsafe(statuses.put_nowait, response)
        )
        try:
            while True:
                yield await statuses.get()
        finally:
            closing.run()


class _Closing:
    """The part of a context that HealthServicer.Watch needs: callbacks for the end of the call."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

    def add_callback(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def run(self) -> None:
        for callback in self._callbacks:
            callback()

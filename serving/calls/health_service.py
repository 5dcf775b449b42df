"""`grpc.health.v1.Health` on the event loop: says what a HealthServicer is told from whatever thread."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc


class HealthService(health_pb2_grpc.HealthServicer):
    """Answers for `servicer`, whose own Watch is made for a server with threads.

    gRPC's own servicer for asyncio forgets those that watch a service when one of them leaves.
    """

    def __init__(self, servicer: health.HealthServicer):
        self._servicer = servicer

    async def Check(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> health_pb2.HealthCheckResponse:
        """Tells the status of a service."""
        return self._servicer.Check(request, context)

    async def Watch(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Tells the status of a service, and each change of it."""
        loop, told, closing = asyncio.get_running_loop(), asyncio.Queue[Any](), _Closing()
        self._servicer.Watch(request, closing, lambda response: loop.call_soon_threadsafe(told.put_nowait, response))
        try:
            while True:
                yield await told.get()
        finally:
            closing.run()


class _Closing:
    """What HealthServicer.Watch asks of a context: to be told of the call's end."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

    def add_callback(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def run(self) -> None:
        for callback in self._callbacks:
            callback()

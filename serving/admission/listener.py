"""A gRPC port that an event loop answers."""

import asyncio
from collections.abc import Sequence

import grpc

from serving.admission.event_loop import EventLoop
from serving.admission.grpc_handler import GrpcHandler
from serving.admission.idle_timeout import options as idle_options
from serving.security import host_and_port

_BEGIN_SECONDS = 0.01  # until gRPC has told all clients to connect elsewhere


class Listener:
    """Binds a port when it is made, and answers on it between `start` and `stop`.

    Port 0 takes any free one. Without credentials it speaks plain text.

    Raises:
        OSError: the address cannot be bound.
    """

    def __init__(
        self,
        loop: EventLoop,
        handler: GrpcHandler,
        address: tuple[str, int],
        silence_seconds: float,
        options: Sequence[tuple[str, int]] = (),
        credentials: grpc.ServerCredentials | None = None,
    ):
        self._loop = loop
        self._handler = handler
        self._watch: asyncio.Task[None] | None = None
        # Without this two servers could share a port, and clients would reach either.
        self._options = [*idle_options(silence_seconds), *({"grpc.so_reuseport": 0} | dict(options)).items()]
        self.port = loop.run(self._hold(host_and_port(*address), credentials))
        self.address = host_and_port(address[0], self.port)

    def start(self) -> None:
        """Starts answering."""
        self._loop.run(self._start())

    def stop(self, grace_seconds: float) -> None:
        """Refuses new calls, gives those in progress some time to finish, and releases the port."""
        self._loop.run(self._stop(grace_seconds))

    async def _hold(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        self._server = grpc.aio.server(handlers=(self._handler,), options=self._options)
        try:
            if credentials is None:
                return self._server.add_insecure_port(address)
            return self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}") from error

    async def _start(self) -> None:
        await self._server.start()
        self._watch = asyncio.create_task(self._handler.idle_timeout.watch())

    async def _stop(self, grace_seconds: float) -> None:
        if self._watch is None:
            await self._start()  # a server that was never started would keep its port
        if grace_seconds:
            await self._handler.admission.drain.begin()
        stopping = asyncio.create_task(self._server.stop(grace_seconds))
        await asyncio.sleep(_BEGIN_SECONDS)
        self._handler.admission.drain.refuse()
        await stopping
        if self._watch is not None:
            self._watch.cancel()

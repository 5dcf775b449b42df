"""A port of gRPC that is answered from an event loop."""

import asyncio
from collections.abc import Sequence

import grpc

from serving import silence
from serving.event_loop import EventLoop
from serving.front import Front


class Listener:
    """Holds a port from the beginning, and answers on it between `start` and `stop`.

    Args:
        loop: where the calls are answered.
        front: what answers them.
        address: host and port, 0 for any free one.
        silence_seconds: as in ServeConfig.
        options: gRPC's further options.
        credentials: of the server, None for plain text.

    Raises:
        OSError: the address cannot be listened on.
    """

    def __init__(
        self,
        loop: EventLoop,
        front: Front,
        address: tuple[str, int],
        silence_seconds: float,
        options: Sequence[tuple[str, int]] = (),
        credentials: grpc.ServerCredentials | None = None,
    ):
        self._loop = loop
        self._front = front
        self._watch: asyncio.Task[None] | None = None
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        # Otherwise two servers share a port, and clients reach either.
        self._options = [("grpc.so_reuseport", 0), *silence.options(silence_seconds), *options]
        self.port = loop.run(self._hold(f"{host}:{address[1]}", credentials))
        self.address = f"{host}:{self.port}"

    def start(self) -> None:
        """Starts to answer."""
        self._loop.run(self._start())

    def stop(self, grace_seconds: float) -> None:
        """Takes no further calls, gives those that run some time to end, and lets the port go."""
        self._loop.run(self._stop(grace_seconds))

    async def _hold(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        self._server = grpc.aio.server(handlers=(self._front,), options=self._options)
        try:
            if credentials is None:
                return self._server.add_insecure_port(address)
            return self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}") from error

    async def _start(self) -> None:
        await self._server.start()
        self._watch = asyncio.create_task(self._front.silence.watch())

    async def _stop(self, grace_seconds: float) -> None:
        if self._watch is None:
            await self._start()  # a server that has not begun would keep its port
        await self._server.stop(grace_seconds)
        if self._watch is not None:
            self._watch.cancel()

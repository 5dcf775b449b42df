"""The HTTP port: uvicorn on the event loop that answers gRPC calls too, with limits on what a connection may do."""

import asyncio
import collections
import contextlib
import socket
import ssl
from typing import Any, NamedTuple

import httptools  # noqa: F401 (uvicorn does not require its parser)
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from schemas.errors import InputError
from serving.admission import HANDSHAKE_SECONDS, EventLoop
from serving.config.settings import ServeConfig
from serving.security import ServerCertificate, host_and_port

MOST_HEAD_BYTES = 32 * 1024
"""Bytes of the first line and the headers of a request, and between two pieces of a body."""
MOST_HEADERS = 100
_MOST_PIPELINED = 16  # requests that wait for the answer to an earlier one on the same connection
_BEGIN_SECONDS = 0.002
_RETRY_SECONDS = 0.1  # after a connection that cannot be accepted, such as for want of open files
_WAITING = 1024  # connections that wait to be accepted


class BindAddress(NamedTuple):
    """Where a port is opened."""

    option: str  # that names its number, for messages
    host: str
    port: int  # 0 for any free one
    shared: bool = False  # whether other servers may open it, too


def bound(address: BindAddress) -> socket.socket:
    """Returns a socket that listens.

    Raises:
        InputError: the address cannot be bound.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address.shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((address.host, address.port))
        listener.listen(_WAITING)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise InputError(
            f"{address.option}: cannot listen on {host_and_port(address.host, address.port)}: "
            f"{error.strerror or error}: choose another {address.option}, or 0 for any free port; the host must be an "
            "address of this machine"
        ) from error
    return listener


class HttpPort:
    """Binds a port when it is made, and answers on it between `start` and `stop`.

    It is that of the HTTP API, or at another `address`; without a certificate it speaks plain text.

    Raises:
        InputError: the address cannot be bound.
    """

    def __init__(
        self,
        loop: EventLoop,
        config: ServeConfig,
        certificate: ServerCertificate | None = None,
        address: BindAddress | None = None,
    ):
        self._loop, self._config, self._certificate = loop, config, certificate
        address = address or BindAddress(
            "--http-port", config.http_host or config.host, config.http_port, config.reuse_port
        )
        self._socket = bound(address)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"{'http' if certificate is None else 'https'}://{host_and_port(address.host, self.port)}"
        self._server: _Server | None = None

    def start(self, app: ASGIApp) -> None:
        """Starts answering with `app`."""
        self._loop.run(self._start(app))

    def stop(self, grace_seconds: float) -> None:
        """Refuses new connections, gives requests in progress some time to end, and releases the port."""
        self._loop.run(self._stop(grace_seconds))

    async def _start(self, app: ASGIApp) -> None:
        context = None if self._certificate is None else self._certificate.context()
        self._server = _Server(app, self._config, context)
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(_BEGIN_SECONDS)

    async def _stop(self, grace_seconds: float) -> None:
        if self._server is not None:
            self._server.config.timeout_graceful_shutdown = max(int(grace_seconds), 1)
            self._server.force_exit = grace_seconds == 0
            self._server.should_exit = True
            await self._task
        self._socket.close()


class _Server(uvicorn.Server):
    """uvicorn's server, except that it counts connections before it accepts them, and before any TLS handshake.

    Args:
        app: answers requests.
        config: the limit on connections, of which one peer may have as many as are left to others, and how long one may
            last on which no whole request arrives, or no answer is read; it is closed after at most twice as long.
        context: encrypts the connections, None for plain text.
    """

    def __init__(self, app: ASGIApp, config: ServeConfig, context: ssl.SSLContext | None):
        super().__init__(
            uvicorn.Config(
                app, http=_Protocol, ws="none", lifespan="off", loop="none", log_config=None, access_log=False,
                server_header=False, proxy_headers=False, timeout_keep_alive=max(int(config.silence_seconds), 1),
            )
        )  # fmt: skip
        self._settings, self._context = config, context
        self._peers: collections.Counter[str] = collections.Counter()
        self._answering: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts accepting connections."""
        assert sockets is not None  # noqa: S101 (for the type checker)
        self.servers = []
        self._accepting = asyncio.create_task(self._accept(sockets[0]))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts no more connections, and waits for those that there are."""
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        await super().shutdown(sockets)
        for task in self._answering:
            task.cancel()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if self._peers[address[0]] >= self._settings.max_connections - self._peers.total():
                connection.close()
                continue
            self._peers[address[0]] += 1
            task = asyncio.create_task(self._answer(connection, address[0]))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, connection: socket.socket, peer: str) -> None:
        """Answers on a connection until it is closed."""
        protocol = _Protocol(self, self._settings.silence_seconds)
        seconds = None if self._context is None else min(self._settings.silence_seconds, HANDSHAKE_SECONDS)
        try:
            with contextlib.suppress(OSError, asyncio.TimeoutError):  # the handshake failed
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=seconds
                )
                await protocol.closed.wait()
        finally:
            connection.close()
            self._peers[peer] -= 1
            if not self._peers[peer]:
                del self._peers[peer]


class _TooMuchError(Exception):
    """A request goes beyond the limits."""


class _Protocol(HttpToolsProtocol):
    """Answers on one connection, and closes it where it goes beyond the limits, of which uvicorn has none."""

    def __init__(self, server: _Server, silence_seconds: float):
        super().__init__(server.config, server.server_state, {})
        self.closed = asyncio.Event()
        self._silence_seconds = silence_seconds
        self._head = 0  # bytes of the path and headers so far
        self._part = 0  # bytes of what has begun and not ended, such as a header
        self._ended = False  # whether something did in the bytes that are read now
        self._last: tuple[Any, int] = (None, 0)  # request, and unread bytes of its answer, at the last look

    def connection_made(self, transport: Any) -> None:
        """Begins to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, error: Exception | None) -> None:
        """Stops waiting."""
        self._timer.cancel()
        super().connection_lost(error)
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        """Reads a part of a request, or of several."""
        if self.transport.is_closing():
            return
        self._ended = False
        super().data_received(data)
        self._part = 0 if self._ended else self._part + len(data)
        if self._head + self._part > MOST_HEAD_BYTES and not self.transport.is_closing():
            self._refuse()

    def on_message_begin(self) -> None:
        """Begins a request."""
        super().on_message_begin()
        self._head, self._ended = 0, True

    def on_url(self, url: bytes) -> None:
        """Reads a part of the path."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Reads a header, or what follows a body in the form of one."""
        self._count(len(name) + len(value))
        super().on_header(name, value)
        if len(self.headers) > MOST_HEADERS:
            raise _TooMuchError

    def on_headers_complete(self) -> None:
        """Begins to answer."""
        super().on_headers_complete()
        self._head, self._ended = 0, True
        if len(self.pipeline) > _MOST_PIPELINED:
            raise _TooMuchError

    def on_body(self, body: bytes) -> None:
        """Reads a part of the body."""
        super().on_body(body)
        self._ended = True

    def send_400_response(self, msg: str) -> None:
        """Refuses what cannot be parsed, or goes beyond the limits."""
        if self._head > MOST_HEAD_BYTES or len(self.headers or ()) > MOST_HEADERS:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _count(self, size: int) -> None:
        self._head, self._ended = self._head + size, True
        if self._head > MOST_HEAD_BYTES:
            raise _TooMuchError

    def _refuse(self) -> None:
        text = f"the server takes at most {MOST_HEADERS} headers of {MOST_HEAD_BYTES} bytes in all\n"
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-type: text/plain\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(text), text.encode())
        )
        self.transport.close()

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self._silence_seconds, self._look)

    def _look(self) -> None:
        now = self.cycle, self.transport.get_write_buffer_size()
        silent = self.cycle is None or self.cycle.response_complete
        if now == self._last and now[1]:
            self.transport.abort()  # nobody reads the answer
        elif now == self._last and silent:
            self.transport.close()
        else:
            self._last = now
            self._wait()

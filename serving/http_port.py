"""The HTTP port: uvicorn on the event loop that answers gRPC calls too."""

import asyncio
import socket
import ssl
from typing import Any

import httptools  # noqa: F401 (uvicorn does not require its parser)
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from schemas.errors import InputError
from serving.calls import EventLoop
from serving.config import ServeConfig
from serving.security import ServerCertificate, host_and_port

_BEGIN_SECONDS = 0.002
_WAITING = 1024  # connections that wait to be accepted


class HttpPort:
    """Binds a port when it is made, and answers on it between `start` and `stop`.

    Args:
        loop: answers the requests.
        config: address and limits.
        certificate: the server's, None for plain text.

    Raises:
        InputError: the address cannot be bound.
    """

    def __init__(self, loop: EventLoop, config: ServeConfig, certificate: ServerCertificate | None = None):
        self._loop, self._config, self._certificate = loop, config, certificate
        host = config.http_host or config.host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if config.reuse_port:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self._socket.bind((host, config.http_port))
            self._socket.listen(_WAITING)
        except OSError as error:
            self._socket.close()
            raise InputError(
                f"--http-port: cannot listen on {host_and_port(host, config.http_port)}: "
                f"{error.strerror or error}: choose another --http-port, or 0 for any free port"
            ) from error
        self.port: int = self._socket.getsockname()[1]
        self.url = f"{'http' if certificate is None else 'https'}://{host_and_port(host, self.port)}"
        self._server: uvicorn.Server | None = None

    def start(self, app: ASGIApp) -> None:
        """Starts answering with `app`."""
        self._loop.run(self._start(app))

    def stop(self, grace_seconds: float) -> None:
        """Refuses new connections, gives requests in progress some time to end, and releases the port."""
        self._loop.run(self._stop(grace_seconds))

    async def _start(self, app: ASGIApp) -> None:
        config = self._config
        encryption: dict[str, Any] = {}
        if self._certificate is not None:
            encryption = {"ssl_certfile": config.tls_certificate, "ssl_keyfile": config.tls_key}
        if config.tls_client_ca:
            encryption |= {"ssl_ca_certs": config.tls_client_ca, "ssl_cert_reqs": ssl.CERT_REQUIRED}
        silence = config.silence_seconds
        protocol = type("Protocol", (_SilenceProtocol,), {"silence_seconds": silence})
        self._server = uvicorn.Server(
            uvicorn.Config(
                app, http=protocol, ws="none", lifespan="off", loop="none", log_config=None, access_log=False,
                server_header=False, proxy_headers=False, timeout_keep_alive=max(int(silence), 1), **encryption,
            )
        )  # fmt: skip
        if self._certificate is not None:
            self._server.config.load()
            context = self._server.config.ssl
            assert context is not None  # noqa: S101 (for the type checker)
            context.sni_callback = self._certificate.choose
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


class _SilenceProtocol(HttpToolsProtocol):
    """Closes a connection on which no whole request arrives for `silence_seconds`; uvicorn would wait forever."""

    silence_seconds = 20.0

    def connection_made(self, transport: Any) -> None:
        """Begins to wait for a request."""
        super().connection_made(transport)
        self._last: Any = None  # request at the last look
        self._wait()

    def connection_lost(self, error: Exception | None) -> None:
        """Stops waiting."""
        self._timer.cancel()
        super().connection_lost(error)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.silence_seconds, self._look)

    def _look(self) -> None:
        if self.cycle is self._last and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()
        else:
            self._last = self.cycle
            self._wait()

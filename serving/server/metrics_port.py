"""The port for Prometheus, with the limits of the HTTP port and an event loop of its own."""

import prometheus_client
from prometheus_client import CollectorRegistry
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.admission import EventLoop
from serving.config.settings import ServeConfig
from serving.errors import ForbiddenError, UnauthenticatedError
from serving.security import METRICS, ServerCertificate, TokenFile, check_role, holder_of, is_loopback
from serving.server.http_port import BindAddress, HttpPort


class MetricsPort:
    """Serves `/metrics` until `close`, on other addresses than loopback over TLS if the server uses TLS.

    Of `tokens`, those with the role metrics may read them; without any, everybody may.

    Raises:
        InputError: the address cannot be bound.
    """

    def __init__(
        self,
        config: ServeConfig,
        registry: CollectorRegistry,
        tokens: TokenFile | None = None,
        certificate: ServerCertificate | None = None,
    ):
        prometheus_client.disable_created_metrics()  # these would double the number of series
        self._loop = EventLoop("metrics")
        address = BindAddress("--metrics-port", config.metrics_host, config.metrics_port)
        try:
            self._port = HttpPort(self._loop, config, None if is_loopback(address.host) else certificate, address)
        except BaseException:
            self._loop.close()
            raise
        app: ASGIApp = prometheus_client.make_asgi_app(registry)
        self._port.start(app if tokens is None else _guarded(app, tokens))
        self.url = f"{self._port.url}/metrics"

    def close(self) -> None:
        """Closes the port."""
        self._port.stop(0)
        self._loop.close()


def _guarded(app: ASGIApp, tokens: TokenFile) -> ASGIApp:
    """Returns an application that lets only tokens with the role metrics through to another one."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        values = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
        try:
            check_role(holder_of(values, tokens), METRICS)
        except (UnauthenticatedError, ForbiddenError) as error:
            status = 403 if isinstance(error, ForbiddenError) else 401
            refusal = PlainTextResponse(f"{error}\n", status, {"www-authenticate": "Bearer"})
            await refusal(scope, receive, send)
        else:
            await app(scope, receive, send)

    return answer

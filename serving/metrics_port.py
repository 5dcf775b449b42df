"""The HTTP port at which Prometheus reads the metrics."""

import ssl
import threading
import wsgiref.simple_server
from typing import Any

import prometheus_client
from prometheus_client.registry import CollectorRegistry

from schemas.errors import InputError
from serving.config import ServeConfig


class MetricsPort:
    """Answers `/metrics` from its making until `close`; over TLS where the server does.

    Raises:
        InputError: the address cannot be listened on, or a file of certificates or a key cannot be used.
    """

    def __init__(self, config: ServeConfig, registry: CollectorRegistry):
        encryption: dict[str, Any] = {}
        if config.encrypted:
            encryption = {"certfile": config.tls_certificate, "keyfile": config.tls_key}
        if config.tls_client_ca:
            encryption |= {"client_cafile": config.tls_client_ca, "client_auth_required": True}
        prometheus_client.disable_created_metrics()  # a series for each series, of which nothing is made
        place = f"{config.metrics_host}:{config.metrics_port}"
        self._server: wsgiref.simple_server.WSGIServer
        self._thread: threading.Thread
        try:
            self._server, self._thread = prometheus_client.start_http_server(
                config.metrics_port, config.metrics_host, registry, **encryption
            )
        except ssl.SSLError as error:
            raise InputError(f"--metrics-port: the certificate cannot be used: {error.reason or error}") from error
        except OSError as error:
            raise InputError(
                f"--metrics-port: cannot listen on {place}: {error.strerror or error}: choose another --metrics-port, "
                "or 0 for any free one; --metrics-host must be an address of this machine"
            ) from error
        host = f"[{config.metrics_host}]" if ":" in config.metrics_host else config.metrics_host
        self.url = f"{'https' if config.encrypted else 'http'}://{host}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Ends the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

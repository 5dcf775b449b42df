"""How to reach a server: deadline, retries, TLS, token and proxy, for both clients."""

import dataclasses
import ipaddress
import json
import os
import pathlib
import re
from typing import Any, Optional, Union

import grpc

MAX_ATTEMPTS = 4
MAX_SECONDS = 86400
_SERVICE = "triage.v1.TriageService"
_IDEMPOTENT = ("Triage", "BatchTriage", "GetModelInfo", "GetVocabulary")  # all methods but the stream
_SERVICE_CONFIG = {
    "methodConfig": [
        {
            "name": [{"service": _SERVICE, "method": method} for method in _IDEMPOTENT],
            "retryPolicy": {
                "maxAttempts": MAX_ATTEMPTS,
                "initialBackoff": "0.05s",
                "maxBackoff": "0.5s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
    # No retries to a server that fails more often than it answers: they would keep it overloaded.
    "retryThrottling": {"maxTokens": 20, "tokenRatio": 0.1},
}
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750
_ADDRESS = re.compile(r"(?:dns:///|dns:|ipv4:|ipv6:)?(?:\[(?P<v6>[0-9A-Fa-f:]+)\]|(?P<host>[^:,/\[\]]+))(?::[0-9]+)?")

Path = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class Connection:
    """The address of a server and how to call it.

    Raises:
        ValueError: an argument is out of its range, or the token would go to another host in plain text.
    """

    server: str
    timeout_seconds: float
    credentials: Optional[grpc.ChannelCredentials]
    token: Optional[str] = dataclasses.field(repr=False)
    insecure: bool
    http_proxy: bool

    def __post_init__(self) -> None:
        if not self.server or self.server.startswith(("http:", "https:")):
            raise ValueError(f"server: expected HOST:PORT; got {self.server!r}")
        checked_seconds(self.timeout_seconds)
        if self.token is None:
            return
        if not _TOKEN.fullmatch(self.token):  # the message omits it, as it is a secret
            raise ValueError("token: expected letters, digits and -._~+/ with = at the end (RFC 6750)")
        if self.credentials is not None or self.insecure:
            return
        if not is_loopback(self.server):
            raise ValueError(
                f"token: {self.server} is another host and the connection is not encrypted: "
                "give credentials=tls_credentials(...), or insecure=True to send it in plain text"
            )
        if self.http_proxy:
            raise ValueError("token: an HTTP proxy could read it: give credentials=tls_credentials(...)")

    def channel(self, api: Any) -> Any:
        """Returns a channel of `api`, either `grpc` or `grpc.aio`."""
        options = [
            ("grpc.enable_http_proxy", int(self.http_proxy)),
            ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
            ("grpc.service_config_disable_resolution", 1),  # DNS records must not change the retries
            # gRPC's own backoff grows to two minutes.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
        ]
        if self.credentials is None:
            return api.insecure_channel(self.server, options=options)
        credentials = self.credentials
        if self.token is not None:  # gRPC sends call credentials only over encrypted connections
            call = grpc.access_token_call_credentials(self.token)
            credentials = grpc.composite_channel_credentials(credentials, call)
        return api.secure_channel(self.server, credentials, options=options)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of each call: the token, unless the channel's credentials contain it."""
        if self.token is None or self.credentials is not None:
            return ()
        return (("authorization", f"Bearer {self.token}"),)

    def seconds(self, timeout_seconds: Optional[float]) -> float:
        """Returns the timeout of one call, by default the connection's.

        Raises:
            ValueError: it is not above 0, or above a day.
        """
        return self.timeout_seconds if timeout_seconds is None else checked_seconds(timeout_seconds)


def checked_seconds(timeout_seconds: float) -> float:
    """Returns `timeout_seconds`.

    Raises:
        ValueError: it is not above 0, or above a day.
    """
    if not 0 < timeout_seconds <= MAX_SECONDS:
        raise ValueError(
            f"timeout_seconds: expected a number of seconds above 0 and at most {MAX_SECONDS}; got {timeout_seconds!r}"
        )
    return timeout_seconds


def is_loopback(server: str) -> bool:
    """Returns whether a gRPC target is on this machine; False for targets of unknown form."""
    if server.startswith(("unix:", "unix-abstract:")):
        return True
    match = _ADDRESS.fullmatch(server)
    if not match:
        return False
    host = match["v6"] or match["host"]
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def tls_credentials(
    root_certificates: Optional[Path] = None,
    *,
    certificate: Optional[Path] = None,
    private_key: Optional[Path] = None,
) -> grpc.ChannelCredentials:
    """Returns the credentials of an encrypted connection.

    Args:
        root_certificates: PEM file of the authorities to trust; by default gRPC's own list.
        certificate: PEM file of the client's certificate chain, for a server that requires one.
        private_key: PEM file of its private key.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is not in PEM format, or only one of `certificate` and `private_key` is given.
    """
    if (certificate is None) != (private_key is None):
        raise ValueError("certificate and private_key: expected both or neither")
    return grpc.ssl_channel_credentials(
        root_certificates=_pem(root_certificates, "CERTIFICATE"),
        private_key=_pem(private_key, "PRIVATE KEY"),
        certificate_chain=_pem(certificate, "CERTIFICATE"),
    )


def _pem(path: Optional[Path], kind: str) -> Optional[bytes]:
    if path is None:
        return None
    content = pathlib.Path(path).read_bytes()
    # gRPC accepts anything, and calls would fail later without naming the file.
    if not re.search(rb"-----BEGIN [A-Z ]*" + kind.encode() + rb"-----", content):
        raise ValueError(f"{os.fspath(path)}: expected a PEM file with a {kind}")
    return content

"""How commands connect to a server: options, channel, vocabulary, and what to say when it fails."""

import argparse
import dataclasses
import pathlib

import grpc

from schemas.errors import InputError
from schemas.evidence import FLAGGED, Evidence, Vocabulary
from serving.security import channel_credentials, read_tokens
from serving.wires.message_json import EVIDENCE_KINDS
from triage_client import (
    DeadlineExceededError,
    TriageClient,
    TriageError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from triage_client.connection import is_loopback
from triage_client.v1 import triage_service_pb2
from triage_runtime.command_line import options
from triage_runtime.command_line.options import option

# An HTTP proxy from the environment would read patients' evidence; gRPC would use it even for loopback.
_OPTIONS = [("grpc.enable_http_proxy", 0)]


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """The options by which to reach a server, see `add_arguments`."""

    server: str
    timeout: float = option("time limit for a call; default: 5", default=5.0, metavar="SECONDS")
    tls: bool = option("connect over TLS, and trust this system's root certificates", default=False)
    tls_ca: str = option(
        "connect over TLS, and trust only the root certificates in this file", default="", metavar="FILE"
    )
    tls_client_certificate: str = option("the client's certificate, in PEM format", default="", metavar="FILE")
    tls_client_key: str = option("its private key, in PEM format", default="", metavar="FILE")

    def __post_init__(self) -> None:
        if not 0 < self.timeout < float("inf"):
            raise InputError(f"--timeout {self.timeout}: expected a number of seconds above 0")

    def credentials(self) -> grpc.ChannelCredentials | None:
        """Returns the credentials, None for plain text.

        Raises:
            InputError: the options do not fit together, or a file is missing or malformed.
        """
        certificate, key = self.tls_client_certificate, self.tls_client_key
        if self.tls or self.tls_ca:
            return channel_credentials(self.tls_ca, certificate, key)
        if certificate or key:
            raise InputError("--tls-client-certificate and --tls-client-key need TLS: also give --tls or --tls-ca")
        return None


@dataclasses.dataclass(frozen=True)
class ConnectionOptions(ServerOptions):
    """The same, and the token of calls that need one."""

    token_file: pathlib.Path | None = option("file with the token for the server", default=None, metavar="FILE")
    insecure: bool = option("allow sending the token to another machine in plain text", default=False)

    def token(self) -> str:
        """Returns the token in the file of the options, "" without one.

        Raises:
            InputError: the file cannot be read, or does not contain exactly one token.
        """
        if self.token_file is None:
            return ""
        tokens = read_tokens(self.token_file)
        if len(tokens) > 1:
            raise InputError(f"{self.token_file}: expected one token, found {len(tokens)}")
        [token] = tokens
        return token


def open_channel(server: str, credentials: grpc.ChannelCredentials | None) -> grpc.Channel:
    """Returns a channel to `HOST:PORT`, in plain text without credentials."""
    if credentials is None:
        return grpc.insecure_channel(server, options=_OPTIONS)
    return grpc.secure_channel(server, credentials, options=_OPTIONS)


def open_client(connection: ConnectionOptions) -> TriageClient:
    """Returns a client of a server.

    Raises:
        InputError: an option is wrong, or the token would go to another machine in plain text.
    """
    credentials, token = connection.credentials(), connection.token()
    if token and credentials is None and not (connection.insecure or is_loopback(connection.server)):
        raise InputError(
            f"{connection.server}: others on the network could read the token: connect over TLS (--tls-ca FILE, or "
            "--tls), or give --insecure to send it in plain text"
        )
    try:
        return TriageClient(
            connection.server,
            timeout_seconds=connection.timeout,
            credentials=credentials,
            token=token or None,
            insecure=connection.insecure,
        )
    except ValueError as error:
        raise InputError(str(error)) from error


def vocabulary_of(listed: triage_service_pb2.GetVocabularyResponse) -> Vocabulary:
    """Returns the answer of GetVocabulary as a vocabulary."""
    return Vocabulary(
        Evidence(
            entry.code, EVIDENCE_KINDS[entry.kind], entry.name, entry.question, tuple(entry.synonyms),
            entry.parent, entry.exclusive, entry.band, entry.instrument, FLAGGED if entry.red_flag else "",
        )
        for entry in listed.entries
    )  # fmt: skip


def add_arguments(
    parser: argparse.ArgumentParser,
    kind: type[ServerOptions] = ConnectionOptions,
    server: str | None = "127.0.0.1:8500",
) -> None:
    """Gives `parser` the options of the connection; without the option, the server is `server`."""
    about = "running server to use, instead of starting one" if server is None else f"server to call; default: {server}"
    parser.add_argument("--server", default=server, metavar="HOST:PORT", help=about)
    options.add_arguments(parser, kind)


def failure(server: str, details: str) -> str:
    """Returns one line that explains gRPC's `details` of a failed connection."""
    if "WRONG_VERSION_NUMBER" in details:
        return f"{server} does not use TLS: leave out --tls and --tls-ca if that is intended"
    if "Peer name" in details:
        return f"{server}: its certificate is for another name: give that name with --server"
    if "handshake failed" in details:
        return f"{server}: its certificate is not trusted: give the root certificate that signed it with --tls-ca FILE"
    if "Socket closed" in details:
        return (
            f"{server} closed the connection: it may require TLS (--tls-ca FILE, or --tls), or another "
            "client certificate (--tls-client-certificate, --tls-client-key)"
        )
    return f"no server at {server}: start one with `triage serve --model-base-path DIR`, or give another --server"


def why_it_failed(error: TriageError, connection: ConnectionOptions) -> str:
    """Returns one line on why a client's call failed, and what to do."""
    server = connection.server
    # A server that is not ready says why; "failed to connect" is gRPC's own wording.
    if isinstance(error, UnavailableError) and error.message.startswith("failed to connect"):
        return failure(server, error.message)
    if isinstance(error, DeadlineExceededError):
        return f"no answer from {server} within {connection.timeout:g} s: try again, or raise --timeout"
    if isinstance(error, UnauthenticatedError):
        return f"{server}: {error.message} (--token-file FILE)"
    if isinstance(error, UnimplementedError):
        return f"{server} is not a triage server: it does not offer triage.v1.TriageService"
    return f"{server}: {error.status.name}: {' '.join(error.message.split())}"

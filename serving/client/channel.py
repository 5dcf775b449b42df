"""How a client reaches a server: the options for it, and the channel."""

import argparse
import pathlib

import grpc

from schemas.errors import InputError
from serving.security.tls import channel_credentials
from serving.security.tokens import read_tokens

# An HTTP proxy of the environment would read a patient's evidence, and gRPC uses it for loopback addresses too.
_OPTIONS = [("grpc.enable_http_proxy", 0)]


def open_channel(server: str, credentials: grpc.ChannelCredentials | None) -> grpc.Channel:
    """Returns a channel to `HOST:PORT`, in plain text where there are no credentials."""
    if credentials is None:
        return grpc.insecure_channel(server, options=_OPTIONS)
    return grpc.secure_channel(server, credentials, options=_OPTIONS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of the connection."""
    parser.add_argument("--tls", action="store_true", help="connect over TLS; the roots of this system are trusted")
    parser.add_argument("--tls-ca", default="", metavar="FILE", help="connect over TLS; these roots alone are trusted")
    parser.add_argument(
        "--tls-client-certificate", default="", metavar="FILE", help="certificate to show to the server, in PEM format"
    )
    parser.add_argument("--tls-client-key", default="", metavar="FILE", help="its private key, in PEM format")
    parser.add_argument(
        "--token-file", type=pathlib.Path, metavar="FILE", help="file of the token to show to the server"
    )
    parser.add_argument("--insecure", action="store_true", help="send the token to another machine in plain text, too")


def credentials_of(arguments: argparse.Namespace) -> grpc.ChannelCredentials | None:
    """Returns what the options say to connect with, None for plain text.

    Raises:
        InputError: they do not fit together, or a file is not what it should be.
    """
    certificate, key = arguments.tls_client_certificate, arguments.tls_client_key
    if arguments.tls or arguments.tls_ca:
        return channel_credentials(arguments.tls_ca, certificate, key)
    if certificate or key:
        raise InputError("--tls-client-certificate and --tls-client-key belong to --tls or --tls-ca: give one as well")
    return None


def token_of(arguments: argparse.Namespace) -> str:
    """Returns the token to show, "" for none.

    Raises:
        InputError: its file cannot be read, or does not hold one token.
    """
    if arguments.token_file is None:
        return ""
    tokens = read_tokens(arguments.token_file)
    if len(tokens) > 1:
        raise InputError(f"{arguments.token_file}: expected one token, found {len(tokens)}")
    return tokens[0]


def failure(server: str, details: str) -> str:
    """Returns one line on why there is no connection to `server`, from gRPC's own words."""
    if "WRONG_VERSION_NUMBER" in details:
        return f"{server} does not answer over TLS: leave out --tls and --tls-ca if it is meant to be so"
    if "Peer name" in details:
        return f"{server}: its certificate is for another name: give the name that it is for as --server"
    if "handshake failed" in details:
        return f"{server}: its certificate is not trusted: give the root that signed it with --tls-ca FILE"
    if "Socket closed" in details:
        return (
            f"{server} closed the connection: it may want TLS (--tls-ca FILE, or --tls), or another "
            "certificate of this client (--tls-client-certificate, --tls-client-key)"
        )
    return f"no server at {server}: start one with `triage serve --model-base-path DIR`, or give its --server"

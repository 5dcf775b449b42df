"""`triage console`: serves pages to one person on this machine, or to those with its link, until Ctrl-C."""

import argparse
import contextlib
import dataclasses
import pathlib
import secrets
import socket
import sys
import webbrowser

import uvicorn
from starlette.types import ASGIApp

from schemas.errors import InputError
from schemas.model_directory import version_folder
from serving.client import channel
from serving.config.settings import DEFAULT_ENGINE
from serving.console.application import Console, Pages, application
from serving.console.guard import Shared
from serving.console.local_server import serving
from serving.console.served_model import NoAnswerError, ServedModel
from serving.security import ServerCertificate, VersionKey, verified
from serving.server.http_port import BindAddress, bound

HOST = "127.0.0.1"
PORT = 8510
_GRACE_SECONDS = 1
_BROWSERS_OMIT = {"http": 80, "https": 443}
_SHARING = "anyone with this link can use the console while it runs: paste it into the address bar\n"
_IN_THE_CLEAR = (
    "warning: others on the network can read the findings and the link: use a network that you trust, or give "
    "--tls-certificate and --tls-key\n"
)
_BEGINNING_SECONDS = 30.0  # of a server of one's own, whose first call may load more than later ones


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to show, and where."""

    models: pathlib.Path | None
    port: int
    open: bool
    key: VersionKey | None = None  # of whoever must have signed the version
    host: str = ""  # of this machine, for other machines; "" for this one alone
    tls: tuple[str, str] | None = None  # files of the certificate and its key

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InputError(f"--port {self.port}: expected a number from 0 (any free port) to 65535")
        if self.host in ("0.0.0.0", "::", "*"):  # noqa: S104
            raise InputError(f"--host {self.host}: expected the one address that others type, such as 192.168.1.20")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage console`."""
    parser.add_argument(
        "--model-base-path",
        type=pathlib.Path,
        metavar="BASE",
        help="directory with a folder for each version: start a server with the highest one, instead of --server",
    )
    parser.add_argument(
        "--require-signature", type=pathlib.Path, metavar="PUBLIC_KEY",
        help="with --model-base-path: load only a version signed with the private key of this Ed25519 key (PEM)",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"port of the pages on {HOST}; 0 takes any free port; default: {PORT}"
    )
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")
    parser.add_argument(
        "--host", default="", metavar="ADDRESS",
        help="address of this machine for other machines, which need the printed link with its token; default: this "
        f"machine only, at {HOST}",
    )  # fmt: skip
    parser.add_argument(
        "--tls-certificate", default="", metavar="FILE", help="with --host: the certificate of ADDRESS, in PEM format"
    )
    parser.add_argument("--tls-key", default="", metavar="FILE", help="its private key, in PEM format")
    channel.add_arguments(parser, server=None)
    channel.add_token_arguments(parser)


def check(arguments: argparse.Namespace) -> None:
    """Refuses options that do not name one model, before TensorFlow loads.

    Raises:
        InputError: an option is missing or wrong.
    """
    base = arguments.model_base_path
    if (base is None) == (arguments.server is None):
        raise InputError("name the model: either --model-base-path BASE or --server HOST:PORT")
    if base is not None and not base.is_dir():
        raise InputError(f"--model-base-path {base}: no such directory: make one with `triage export`")
    if base is None and arguments.require_signature is not None:
        raise InputError("--require-signature: needs --model-base-path: a running server loads versions by itself")
    settings_of(arguments)


def needs_tensorflow(arguments: argparse.Namespace) -> bool:
    """Returns whether the console starts a server of its own that loads TensorFlow."""
    return arguments.server is None and DEFAULT_ENGINE == "saved-model"


def run(arguments: argparse.Namespace) -> int:
    """Serves the pages until Ctrl-C or SIGTERM.

    Returns:
        0.

    Raises:
        InputError: an option is wrong, the port is taken, or the model cannot be reached.
    """
    settings = settings_of(arguments)
    with contextlib.ExitStack() as stack:
        # Before the model loads, to report a taken port at once.
        listener = stack.enter_context(bound(BindAddress("--port", settings.host or HOST, settings.port)))
        if settings.models is not None:
            models = settings.models
            if settings.key is not None:
                models = stack.enter_context(verified(version_folder(models), settings.key)).parent
            settings = dataclasses.replace(settings, models=models)
            arguments.server = stack.enter_context(serving(models))
            arguments.timeout = max(arguments.timeout, _BEGINNING_SECONDS)
        served = stack.enter_context(ServedModel(channel.read_connection(arguments)))
        address, port, *_ = listener.getsockname()
        shared = Shared(_origin(settings, address, port), secrets.token_urlsafe()) if settings.host else None
        try:
            number = served.version().info.model_version
        except NoAnswerError as error:
            raise InputError(str(error)) from error
        url = shared.link() if shared else f"http://{HOST}:{port}/"
        sys.stdout.write(f"model version {number}\nconsole at {url} (Ctrl-C ends it)\n")
        if shared:
            sys.stdout.write(_SHARING + ("" if settings.tls else _IN_THE_CLEAR))
        sys.stdout.flush()
        if settings.open and not shared:  # other people of this machine can read what a browser is started with
            webbrowser.open(url)
        _serve(application(Console(served, Pages(), settings.models), shared), listener, settings.tls)
    return 0


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Returns the options that are not of the connection.

    Raises:
        InputError: one is out of range, or they do not fit together.
    """
    key = arguments.require_signature
    tls = arguments.tls_certificate, arguments.tls_key
    if any(tls) and not (all(tls) and arguments.host):
        raise InputError("--tls-certificate, --tls-key and --host need each other: TLS is for other machines")
    if any(tls):
        ServerCertificate(*tls)  # says what is wrong with them
    return Settings(
        arguments.model_base_path,
        arguments.port,
        not arguments.no_open,
        VersionKey.read(key) if key else None,
        arguments.host,
        tls if any(tls) else None,
    )


def _origin(settings: Settings, address: str, port: int) -> str:
    """Returns the origin of the pages for other machines, as browsers write it."""
    scheme = "https" if settings.tls else "http"
    name = f"[{address}]" if ":" in address else settings.host.lower()
    return f"{scheme}://{name}" + (f":{port}" if port != _BROWSERS_OMIT[scheme] else "")


def _serve(app: ASGIApp, listener: socket.socket, tls: tuple[str, str] | None = None) -> None:
    """Answers until a signal comes; uvicorn then raises it again. Nothing is logged: lines could name findings."""
    certificate, key = tls or (None, None)
    config = uvicorn.Config(
        app, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_SECONDS, ssl_certfile=certificate, ssl_keyfile=key,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listener])

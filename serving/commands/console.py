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
from triage_runtime.command_line import options
from triage_runtime.command_line.options import option

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConsoleOptions:
    """The options of `triage console` beside those of the connection, see its help."""

    model_base_path: pathlib.Path | None = option(
        "directory with a folder for each version: start a server with the highest one, instead of --server",
        metavar="BASE",
    )
    require_signature: pathlib.Path | None = option(
        "with --model-base-path: load only a version signed with the private key of this Ed25519 key (PEM)",
        metavar="PUBLIC_KEY",
    )
    port: int = option(f"port of the pages on {HOST}; 0 takes any free port; default: {PORT}", default=PORT)
    no_open: bool = option("do not open a browser")
    host: str = option(
        "address of this machine for other machines, which need the printed link with its token; default: this "
        f"machine only, at {HOST}",
        default="", metavar="ADDRESS",
    )  # fmt: skip
    tls_certificate: str = option("with --host: the certificate of ADDRESS, in PEM format", default="", metavar="FILE")
    tls_key: str = option("its private key, in PEM format", default="", metavar="FILE")

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InputError(f"--port {self.port}: expected a number from 0 (any free port) to 65535")
        if self.host in ("0.0.0.0", "::", "*"):  # noqa: S104
            raise InputError(f"--host {self.host}: expected the one address that others type, such as 192.168.1.20")
        tls = (self.tls_certificate, self.tls_key)
        if any(tls) and not (all(tls) and self.host):
            raise InputError("--tls-certificate, --tls-key and --host need each other: TLS is for other machines")
        if any(tls):
            ServerCertificate(*tls)  # says what is wrong with them

    def key(self) -> VersionKey | None:
        """Returns the key of whoever must have signed the version.

        Raises:
            InputError: it cannot be read.
        """
        return VersionKey.read(self.require_signature) if self.require_signature else None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage console`."""
    options.add_arguments(parser, ConsoleOptions)
    channel.add_arguments(parser, server=None)


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
    options.read(ConsoleOptions, arguments).key()


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
    given = options.read(ConsoleOptions, arguments)
    with contextlib.ExitStack() as stack:
        # Before the model loads, to report a taken port at once.
        listener = stack.enter_context(bound(BindAddress("--port", given.host or HOST, given.port)))
        models = given.model_base_path
        if models is not None:
            if (key := given.key()) is not None:
                models = stack.enter_context(verified(version_folder(models), key)).parent
            arguments.server = stack.enter_context(serving(models))
            arguments.timeout = max(arguments.timeout, _BEGINNING_SECONDS)
        served = stack.enter_context(ServedModel(options.read(channel.ConnectionOptions, arguments)))
        address, port, *_ = listener.getsockname()
        shared = Shared(_origin(given, address, port), secrets.token_urlsafe()) if given.host else None
        try:
            number = served.version().info.model_version
        except NoAnswerError as error:
            raise InputError(str(error)) from error
        url = shared.link() if shared else f"http://{HOST}:{port}/"
        sys.stdout.write(f"model version {number}\nconsole at {url} (Ctrl-C ends it)\n")
        if shared:
            sys.stdout.write(_SHARING + ("" if given.tls_certificate else _IN_THE_CLEAR))
        sys.stdout.flush()
        if not (given.no_open or shared):  # other people of this machine can read what a browser is started with
            webbrowser.open(url)
        _serve(application(Console(served, Pages(), models), shared), listener, given)
    return 0


def _origin(given: ConsoleOptions, address: str, port: int) -> str:
    """Returns the origin of the pages for other machines, as browsers write it."""
    scheme = "https" if given.tls_certificate else "http"
    name = f"[{address}]" if ":" in address else given.host.lower()
    return f"{scheme}://{name}" + (f":{port}" if port != _BROWSERS_OMIT[scheme] else "")


def _serve(app: ASGIApp, listener: socket.socket, given: ConsoleOptions) -> None:
    """Answers until a signal comes; uvicorn then raises it again. Nothing is logged: lines could name findings."""
    config = uvicorn.Config(
        app, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_SECONDS, ssl_certfile=given.tls_certificate or None,
        ssl_keyfile=given.tls_key or None,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listener])

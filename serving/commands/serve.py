"""`triage serve`: runs a server until a signal comes, and keeps its versions up to date."""

import argparse
import contextlib
import dataclasses
import faulthandler
import logging
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from schemas.errors import InputError
from serving import process
from serving.admission import step_back, take_short_turns
from serving.config import vertex
from serving.config.settings import OPTIONS, ServeConfig, read_settings
from serving.engine.model_config import ModelConfig, VersionPolicy, read_file
from serving.engine.served_models import open_model
from serving.engine.watcher import Watcher
from serving.errors import DeadlineError, PreconditionError, UnavailableError
from serving.process import EndSignals
from serving.security import Reread, is_loopback
from serving.server.triage_server import TriageServer
from serving.telemetry import configure_logging
from triage_runtime.command_line import options
from triage_runtime.command_line.extras import need
from triage_runtime.storage import locations

_Listed = Reread[list[ModelConfig]]

_LOGGER = logging.getLogger(__name__)
_JOIN_SECONDS = 1.0  # for a look that is in progress
END_SECONDS = 6.0
"""For everything after the grace period, such as the last records of the audit log; then the process ends itself."""
_OF_ONE_MODEL = ("model_base_path", "model_name", "version", "label")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage serve`; those that are not given get their values from `check`."""
    parser.argument_default = argparse.SUPPRESS
    text = "directory with a folder for each version, local or gs://"
    parser.add_argument("--model-base-path", metavar="BASE", help=text)
    parser.add_argument(
        "--model-config-file",
        type=pathlib.Path,
        metavar="FILE",
        help="file of several models to serve, instead of --model-base-path: TensorFlow Serving's ModelServerConfig "
        "in text format, with name, base path, versions and labels of each; read again when it changes",
    )
    parser.add_argument(
        "--config",
        type=pathlib.Path,
        metavar="FILE",
        help="TOML file of any of these options, such as http-port = 8501; the command line overrides it",
    )
    parser.add_argument("--version", type=int, help="version to serve; default: the highest, including later ones")
    parser.add_argument(
        "--label",
        action="append",
        metavar="NAME=VERSION",
        help="name by which requests can choose a version, which is loaded too; may be repeated",
    )
    for field in OPTIONS:
        option = options.flag(field.name)
        if isinstance(field.default, bool):
            action: Any = argparse.BooleanOptionalAction if field.default else "store_true"
            parser.add_argument(option, action=action, help=field.metadata["help"], default=argparse.SUPPRESS)
            continue
        parser.add_argument(
            option,
            type=type(field.default),
            choices=field.metadata.get("choices"),
            help=field.metadata["help"] + (f"; default: {field.default}" if field.default else ""),
        )


def check(arguments: argparse.Namespace) -> None:
    """Sets the options that the command line has not: to those of `--config`, then Vertex AI's, then the defaults.

    Raises:
        InputError: the file of options is faulty, no model is named, or an option needs TensorFlow, which is missing.
    """
    defaults: dict[str, Any] = {"version": None, "label": []}
    defaults |= {"config": None, "model_config_file": None}
    defaults |= {field.name: field.default for field in dataclasses.fields(ServeConfig)} | vertex.defaults()
    defaults["model_base_path"] = vertex.model_base_path()
    file = getattr(arguments, "config", None)
    given = ({} if file is None else read_settings(file)) | vars(arguments)
    if not is_loopback(given.get("host", "127.0.0.1")):
        defaults["insecure"] = False  # Vertex AI's plain text is for HTTP
    settings = defaults | given
    if settings["model_config_file"] is not None:
        for name in _OF_ONE_MODEL:
            if settings[name] != defaults[name]:
                raise InputError(f"--model-config-file names the models: leave out {options.flag(name)}")
    elif settings["model_base_path"] is None:
        raise InputError("--model-base-path: missing: name the directory with a folder for each version")
    if settings["model_config_file"] is not None:
        settings["model_config_file"] = pathlib.Path(settings["model_config_file"])
    vars(arguments).update(settings)
    if option := needs_tensorflow(arguments):
        need("tensorflow", option, "tensorflow")


def needs_tensorflow(arguments: argparse.Namespace) -> str | None:
    """Returns an option that loads TensorFlow, None if there is none, once `check` has set all of them."""
    if arguments.engine != "litert":
        return f"--engine {arguments.engine}"
    if arguments.audit_log or arguments.model_config_file:
        return "--audit-log" if arguments.audit_log else "--model-config-file"
    remote = locations.is_remote(str(arguments.model_base_path))
    return f"--model-base-path {arguments.model_base_path}" if remote else None


def run(arguments: argparse.Namespace) -> int:
    """Serves until SIGTERM (returns 0) or Ctrl-C (returns 130).

    Raises:
        InputError: a setting is out of range, the port is taken, or no model can be served.
    """
    process.limit_arenas()
    process.allow_open_files()
    check(arguments)
    config = options.read(ServeConfig, arguments)
    file = arguments.model_config_file
    if file is None:
        pinned = VersionPolicy(numbers=None if arguments.version is None else frozenset([arguments.version]))
        labels = parse_labels(arguments.label)
        models = [ModelConfig(config.model_name, arguments.model_base_path, pinned, labels)]
        listed = None
    else:
        listed = Reread([file], lambda: read_file(file), "the earlier models stay")
        models = listed.current()
    configure_logging(config.log_format)
    return _serve(config, models, listed)


def parse_labels(texts: Collection[str]) -> dict[str, int]:
    """Returns the version of each label, from texts such as `stable=3`.

    Raises:
        InputError: a text is malformed, or two give the same label.
    """
    labels: dict[str, int] = {}
    for text in texts:
        label, _, number = text.rpartition("=")
        if not label or not (number.isascii() and number.isdecimal()):
            raise InputError(f"--label {text}: expected NAME=VERSION, such as stable=3")
        if label in labels:
            raise InputError(f"--label {text}: the label {label} is given twice")
        labels[label] = int(number)
    return labels


def _serve(config: ServeConfig, models: list[ModelConfig], listed: _Listed | None) -> int:
    if config.insecure:
        _LOGGER.warning("--insecure: others on the network can read and change requests and answers")
    take_short_turns()
    with contextlib.ExitStack() as stack:
        server, watchers = _start(config, models, stack)
        signals = EndSignals()
        server.update_health()
        numbers = {watcher.versions.model_name: watcher.versions.default for watcher in watchers}
        sys.stdout.write(f"listening on {server.address}, {_state(numbers)}\n")  # callers that started it wait for this
        if server.http is not None:
            sys.stdout.write(f"HTTP at {server.http.url}\n")
        if server.metrics_port is not None:
            sys.stdout.write(f"metrics at {server.metrics_port.url}\n")
        sys.stdout.flush()
        faulthandler.enable(2)  # shows what hangs when systemd's watchdog ends the process
        process.notify("READY=1")
        number, loading = _watch_until(signals, server, config, models, listed)
    if loading:  # the interpreter must not be taken apart meanwhile
        process.end(process.exit_code(number))
    return process.exit_code(number)


def _start(
    config: ServeConfig, models: Sequence[ModelConfig], stack: contextlib.ExitStack
) -> tuple[TriageServer, list[Watcher]]:
    """Returns a server that has loaded its models, and what watches them; `stack` cleans up."""
    server = None
    if not config.reuse_port:
        server = TriageServer(config)  # before the models, to report a taken port at once
    watchers = [open_model(config, model) for model in models]
    if server is not None:
        stack.callback(server.stop)
        server.start(*watchers)
    process.freeze_loaded_objects()  # before loading models, which must be freed
    for watcher in watchers:
        watcher.look()
        try:
            watcher.check()
        except (UnavailableError, DeadlineError) as error:  # of a remote engine, which may become reachable later
            _LOGGER.warning("%s; trying again every %g s", error, config.poll_seconds)
    if server is None:  # after the models, as a port that others answer on brings calls as soon as it is opened
        server = TriageServer(config)
        stack.callback(server.stop)
        server.start(*watchers)
    server.check()
    return server, watchers


def _state(numbers: Mapping[str, int | None]) -> str:
    """Returns which version answers, for each model if there are several."""
    texts = {name: "no version yet" if number is None else f"version {number}" for name, number in numbers.items()}
    if len(texts) > 1:
        return "models " + ", ".join(f"{name} {text}" for name, text in texts.items())
    [text] = texts.values()
    return text.replace("version", "model version")


def _watch_until(
    signals: EndSignals, server: TriageServer, config: ServeConfig, models: list[ModelConfig], listed: _Listed | None
) -> tuple[int, bool]:
    """Looks for new versions and models until a signal comes, drains after SIGTERM, and stops.

    Returns:
        The signal's number, and whether a version is still being loaded.
    """
    stop, seconds = threading.Event(), config.poll_seconds
    polls: list[threading.Thread] = []

    def poll(run: Callable[[], None]) -> None:
        def work() -> None:
            step_back()
            run()

        polls[:] = [thread for thread in polls if thread.is_alive()]
        polls.append(threading.Thread(target=work, name="versions", daemon=True))
        polls[-1].start()

    if seconds:
        server.models.on_each(lambda model: poll(lambda: model.run(seconds, stop, server.update_health)))
    if seconds and listed is not None:
        poll(lambda: _follow(listed, models, server, seconds, stop))
    number = signals.wait()
    drain_seconds = config.drain_seconds if number == signal.SIGTERM else 0.0
    process.end_after(drain_seconds + config.grace_seconds + END_SECONDS, process.exit_code(number))
    if number == signal.SIGTERM:
        server.drain()
        time.sleep(config.drain_seconds)
    stop.set()
    server.stop()
    end = time.monotonic() + _JOIN_SECONDS
    for thread in polls:
        thread.join(max(0.0, end - time.monotonic()))
    return number, any(thread.is_alive() for thread in polls)


def _follow(
    listed: _Listed, served: list[ModelConfig], server: TriageServer, seconds: float, stop: threading.Event
) -> None:
    """Serves the models of a file anew each time that it changes; what is refused changes nothing."""
    refused = False
    while not stop.wait(seconds):
        models = listed.current()
        if models is not served:
            served, refused = models, True
            try:
                server.models.change(models)
                refused = False
            except (InputError, PreconditionError) as error:
                _LOGGER.error("--model-config-file: %s", error)
            except Exception:  # the traceback has no evidence, and the server must survive errors here
                _LOGGER.exception("--model-config-file: changing the models failed")
        server.telemetry.note_model_config(refused or listed.faulty)

"""`triage serve`: runs a server until a signal comes, and keeps its versions up to date."""

import argparse
import dataclasses
import logging
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from schemas.errors import InputError
from serving import process, vertex
from serving.calls import step_back, take_short_turns
from serving.config import ServeConfig
from serving.models.model_store import ModelStore, local_base
from serving.models.version_policy import VersionPolicy, Wanted, parse_labels
from serving.process import EndSignals
from serving.server import TriageServer
from serving.settings_file import read_settings
from serving.telemetry import configure_logging

if TYPE_CHECKING:
    from serving.models.watcher import Watcher

_LOGGER = logging.getLogger(__name__)
_JOIN_SECONDS = 1.0  # for a look that is in progress
_END_SECONDS = 6.0  # for everything after the grace period, such as the last records of the audit log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage serve`; those that are not given get their values from `check`."""
    parser.argument_default = argparse.SUPPRESS
    text = "directory with a folder for each version, local or gs://"
    parser.add_argument("--model-base-path", metavar="BASE", help=text)
    parser.add_argument(
        "--config",
        type=pathlib.Path,
        metavar="FILE",
        help="TOML file of any of these options, such as http-port = 8501; the command line overrides it",
    )
    parser.add_argument("--version", type=int, help="number of the version to serve; default: the highest at any time")
    parser.add_argument(
        "--label",
        action="append",
        metavar="NAME=VERSION",
        help="name a version, so that requests can ask for it, and load it too; may be repeated",
    )
    parser.add_argument(
        "--shadow-version",
        type=int,
        metavar="N",
        help="let this version answer each call again, and log where it decides differently; same as --label shadow=N",
    )
    parser.add_argument(
        "--port-file",
        type=pathlib.Path,
        help="file to write the port to once the server answers, for --port 0",
    )
    for field in dataclasses.fields(ServeConfig):
        option = f"--{field.name.replace('_', '-')}"
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
        InputError: the file of options is faulty, or no model is named.
    """
    settings: dict[str, Any] = {"version": None, "label": [], "shadow_version": None, "port_file": None}
    settings |= {field.name: field.default for field in dataclasses.fields(ServeConfig)} | vertex.defaults()
    settings["model_base_path"] = vertex.model_base_path()
    file = getattr(arguments, "config", None)
    settings |= {"config": None} if file is None else read_settings(file)
    settings |= vars(arguments)
    if settings["model_base_path"] is None:
        raise InputError("--model-base-path: missing: name the directory with a folder for each version")
    if settings["port_file"] is not None:
        settings["port_file"] = pathlib.Path(settings["port_file"])
    vars(arguments).update(settings)


def run(arguments: argparse.Namespace) -> int:
    """Serves until SIGTERM (returns 0) or Ctrl-C (returns 130).

    Raises:
        InputError: a setting is out of range, the port is taken, or no model can be served.
    """
    process.limit_arenas()
    check(arguments)
    with local_base(arguments.model_base_path) as (base, store):
        config = ServeConfig(**{each.name: getattr(arguments, each.name) for each in dataclasses.fields(ServeConfig)})
        configure_logging(config.log_format)
        pinned = VersionPolicy(numbers=None if arguments.version is None else frozenset([arguments.version]))
        labels = _labels(arguments.label, arguments.shadow_version, config.canary_percent)
        return _serve(config, Wanted(base, pinned, labels), store, arguments.port_file)


def _serve(config: ServeConfig, wanted: Wanted, store: ModelStore | None, port_file: pathlib.Path | None) -> int:
    if config.insecure:
        _LOGGER.warning("--insecure: others on the network can read and change requests and answers")
    if config.rules and config.engine == "saved-model":
        _LOGGER.warning("--rules: PredictionService does not apply them: export the model with rules for its clients")
    take_short_turns()
    server = TriageServer(config)  # before the model, to report a taken port at once
    from serving.models.served_models import watcher_of  # loads TensorFlow

    watcher = watcher_of(config, wanted, store)
    server.start(watcher)
    process.freeze_loaded_objects()  # before loading models, which must be freed
    try:
        if port_file is not None:
            process.remove(port_file)  # left by an earlier server
        watcher.look()
        _check(watcher, config)
        signals = EndSignals()
        server.update_health()
        if port_file is not None:
            process.write(port_file, server.port)
        version = watcher.versions.default
        state = "no model version yet" if version is None else f"model version {version}"
        sys.stdout.write(f"listening on {server.address}, {state}\n")
        if server.http is not None:
            sys.stdout.write(f"HTTP at {server.http.url}\n")
        if server.metrics_port is not None:
            sys.stdout.write(f"metrics at {server.metrics_port.url}\n")
        sys.stdout.flush()
        number, loading = _watch_until(signals, watcher, server, config)
    finally:
        server.stop()
        if port_file is not None:
            process.remove(port_file)
    if loading:  # the interpreter must not be taken apart meanwhile
        process.end(process.exit_code(number))
    return process.exit_code(number)


def _check(watcher: "Watcher", config: ServeConfig) -> None:
    """Refuses to start without a version, unless a remote engine may become reachable later."""
    from serving.errors import DeadlineError, UnavailableError

    try:
        watcher.check()
    except (UnavailableError, DeadlineError) as error:
        _LOGGER.warning("%s; trying again every %g s", error, config.poll_seconds)


def _labels(given: Sequence[str], shadow_version: int | None, canary_percent: float) -> dict[str, int]:
    shadow = [] if shadow_version is None else [f"shadow={shadow_version}"]
    labels = parse_labels([*given, *shadow])
    if canary_percent and "canary" not in labels:
        raise InputError("--canary-percent: no version has the label canary: set it with --label canary=VERSION")
    return labels


def _watch_until(
    signals: EndSignals, watcher: "Watcher", server: TriageServer, config: ServeConfig
) -> tuple[int, bool]:
    """Looks for new versions until a signal comes, drains after SIGTERM, and stops.

    Returns:
        The signal's number, and whether a version is still being loaded.
    """
    stop, seconds = threading.Event(), config.poll_seconds

    def look() -> None:
        step_back()
        watcher.run(seconds, stop, server.update_health)

    poll = threading.Thread(target=look, name="versions", daemon=True)
    if seconds:
        poll.start()
    number = signals.wait()
    drain_seconds = config.drain_seconds if number == signal.SIGTERM else 0.0
    process.end_after(drain_seconds + config.grace_seconds + _END_SECONDS, process.exit_code(number))
    if number == signal.SIGTERM:
        server.drain()
        time.sleep(config.drain_seconds)
    stop.set()
    server.stop()
    if seconds:
        poll.join(_JOIN_SECONDS)
    return number, poll.is_alive()

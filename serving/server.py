"""`triage serve`: offers TriageService and TensorFlow Serving's services over gRPC, with health and reflection."""

import argparse
import dataclasses
import logging
import pathlib
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from schemas.errors import InputError
from serving import process, vertex
from serving.calls import (
    Cost,
    EventLoop,
    Front,
    HealthService,
    Limits,
    Listener,
    ProbePort,
    Workers,
    step_back,
    take_short_turns,
)
from serving.config import ServeConfig
from serving.models.model_store import ModelStore, local_base
from serving.models.version_policy import VersionPolicy, Wanted, parse_labels
from serving.process import EndSignals
from serving.security import Access, LocalReloads, TokenAccess, TokenFile, server_credentials
from serving.telemetry import MetricsPort, Telemetry, configure_logging
from triage.v1 import triage_service_pb2, triage_service_pb2_grpc

if TYPE_CHECKING:
    from serving.models.watcher import Watcher

_LOGGER = logging.getLogger(__name__)
_JOIN_SECONDS = 1.0  # for a look that is in progress
_END_SECONDS = 6.0  # for everything after the grace period, such as the last records of the audit log

SERVICE = triage_service_pb2.DESCRIPTOR.services_by_name["TriageService"].full_name


class TriageServer:
    """A gRPC server that binds its port when it is made and answers between `start` and `stop`.

    It answers calls on an event loop in a thread of its own, so call its methods from other threads.

    Raises:
        InputError: the address cannot be bound, or a file of certificates, a key or tokens is faulty.
    """

    def __init__(self, config: ServeConfig):
        credentials = None
        if config.encrypted:
            credentials = server_credentials(config.tls_certificate, config.tls_key, config.tls_client_ca)
        access: Access = LocalReloads()
        if config.tokens:
            access = TokenAccess(TokenFile(pathlib.Path(config.tokens)))
        self._config = config
        self._telemetry = Telemetry.of(config)
        self._workers = Workers(config.max_workers)
        places = config.max_workers + config.max_interviews + config.max_waiting
        pending = Cost(config.max_pending_states, config.max_pending_bytes)
        limits = Limits(places, config.silence_seconds, frozenset([f"/{SERVICE}/Interview"]), pending)
        self._front = Front(limits, self._workers, self._telemetry, access)
        self._health = health.HealthServicer()
        self._stopped = False
        self._healthy: bool | None = None  # what health reports, None before its first report
        self._loop = EventLoop("calls")
        try:
            self._listener, self.probes = self._listen(credentials)
        except InputError:
            self._loop.close()
            raise
        self.port, self.address = self._listener.port, self._listener.address
        self.http: Any = None
        if config.http_port >= 0:
            from serving.http_port import HttpPort  # loads uvicorn

            self.http = HttpPort(self._loop, config)
        metrics = self._telemetry.metrics
        self.metrics_port = None if metrics is None else MetricsPort(config, metrics.registry)

    def start(self, watcher: "Watcher") -> None:
        """Starts answering from the versions of `watcher`; until one is loaded, calls end with UNAVAILABLE.

        The server also offers TensorFlow Serving's services, unless a TensorFlow Serving is the engine.
        """
        from serving.triage import TriageService  # loads TensorFlow

        self._telemetry.watch(watcher.versions)
        service = TriageService(watcher, self._config, self._front, self._telemetry)
        triage_service_pb2_grpc.add_TriageServiceServicer_to_server(service, self._front)
        services = [SERVICE]
        if self._config.engine == "saved-model":
            services += _add_tensorflow_serving(self._front, watcher, self._config, self._telemetry)
        health_pb2_grpc.add_HealthServicer_to_server(HealthService(self._health), self._front)
        reflected = reflection.aio.ReflectionServicer((*services, health.SERVICE_NAME, reflection.SERVICE_NAME))
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflected, self._front)
        self._health_services = ("", *services)
        self._watcher = watcher
        self.update_health()
        self._listener.start()
        if self.probes is not None:
            self.probes.start()
        if self.http is not None:
            from serving.http import application_of  # loads TensorFlow

            self.http.start(application_of(self._front, watcher, self._config, service, self._telemetry))

    def update_health(self) -> None:
        """Reports SERVING for the server ("") and each service if a version can answer, NOT_SERVING otherwise."""
        ready = self._watcher.ready
        if ready is self._healthy:
            return  # watchers get changes only
        self._healthy = ready
        status = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in self._health_services:
            self._health.set(service, status)

    def drain(self) -> None:
        """Reports NOT_SERVING from now on, while calls are still answered."""
        self._health.enter_graceful_shutdown()

    def stop(self) -> None:
        """Reports NOT_SERVING, refuses new calls, and gives those in progress the grace period to finish."""
        self.drain()
        if self._stopped:
            return
        self._stopped = True
        if self.http is not None:
            self.http.stop(self._config.grace_seconds)
        self._listener.stop(self._config.grace_seconds)
        if self.probes is not None:
            self.probes.stop()
        self._loop.close()
        self._workers.close()
        self._telemetry.close()
        if self.metrics_port is not None:
            self.metrics_port.close()

    def _listen(self, credentials: grpc.ServerCredentials | None) -> tuple[Listener, ProbePort | None]:
        config = self._config
        options = [
            ("grpc.max_receive_message_length", config.max_message_bytes),
            ("grpc.max_concurrent_streams", config.max_streams),
        ]
        address, silence = (config.host, config.port), config.silence_seconds
        try:
            listener = Listener(self._loop, self._front, address, silence, options, credentials)
        except OSError as error:
            raise InputError(
                f"{error}: is another server running there? Choose another --port, "
                "or 0 for any free port; --host must be an address of this machine"
            ) from error
        if config.probe_port < 0:
            return listener, None
        return listener, ProbePort(self._loop, config.host, config.probe_port, self._health, silence)


def _add_tensorflow_serving(front: Front, watcher: "Watcher", config: ServeConfig, telemetry: Telemetry) -> list[str]:
    """Offers TensorFlow Serving's services, and returns their names."""
    from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc  # load TensorFlow

    from serving.tf_serving import MODEL_SERVICE, PREDICTION_SERVICE, ModelService, PredictionService

    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(watcher.versions, config, telemetry), front
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(watcher), front)
    return [PREDICTION_SERVICE, MODEL_SERVICE]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage serve`."""
    text = "directory with a folder for each version, local or gs://"
    model, settings = vertex.model_base_path(), vertex.defaults()
    parser.add_argument("--model-base-path", required=model is None, default=model, metavar="BASE", help=text)
    parser.add_argument("--version", type=int, help="number of the version to serve; default: the highest at any time")
    parser.add_argument(
        "--label",
        action="append",
        default=[],
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
            default = settings.get(field.name, field.default)
            parser.add_argument(option, action=action, default=default, help=field.metadata["help"])
            continue
        parser.add_argument(
            option,
            type=type(field.default),
            default=settings.get(field.name, field.default),
            choices=field.metadata.get("choices"),
            help=field.metadata["help"] + (f"; default: {field.default}" if field.default else ""),
        )


def run(arguments: argparse.Namespace) -> int:
    """Serves until SIGTERM (returns 0) or Ctrl-C (returns 130).

    Raises:
        InputError: a setting is out of range, the port is taken, or no model can be served.
    """
    process.limit_arenas()
    with local_base(arguments.model_base_path) as (base, store):
        return _serve(arguments, base, store)


def _serve(arguments: argparse.Namespace, base: pathlib.Path, store: ModelStore | None) -> int:
    config = ServeConfig(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(ServeConfig)})
    configure_logging(config.log_format)
    pinned = None if arguments.version is None else frozenset([arguments.version])
    wanted = Wanted(base, VersionPolicy(numbers=pinned), _labels(arguments, config))
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
        if arguments.port_file is not None:
            process.remove(arguments.port_file)  # left by an earlier server
        watcher.look()
        _check(watcher, config)
        signals = EndSignals()
        server.update_health()
        if arguments.port_file is not None:
            process.write(arguments.port_file, server.port)
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
        if arguments.port_file is not None:
            process.remove(arguments.port_file)
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


def _labels(arguments: argparse.Namespace, config: ServeConfig) -> dict[str, int]:
    shadow = [] if arguments.shadow_version is None else [f"shadow={arguments.shadow_version}"]
    labels = parse_labels([*arguments.label, *shadow])
    if config.canary_percent and "canary" not in labels:
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

"""`triage serve`: offers TriageService and TensorFlow Serving's services over gRPC, with health and reflection."""

import argparse
import concurrent.futures
import dataclasses
import logging
import os
import pathlib
import signal
import sys
import threading
from typing import TYPE_CHECKING

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from schemas.errors import InputError
from serving.config import ServeConfig
from serving.model_directory import find_version
from triage.v1 import triage_pb2, triage_service_pb2, triage_service_pb2_grpc

if TYPE_CHECKING:
    from serving.engine import Engine, SavedModelEngine
    from serving.versions import Versions

SERVICE = triage_service_pb2.DESCRIPTOR.services_by_name["TriageService"].full_name


class TriageServer:
    """A gRPC server that holds its port from the start and answers between `start` and `stop`.

    Raises:
        InputError: the address cannot be listened on.
    """

    def __init__(self, config: ServeConfig):
        options = [
            ("grpc.so_reuseport", 0),  # otherwise two servers share a port, and clients reach either
            ("grpc.max_receive_message_length", config.max_message_bytes),
        ]
        workers = concurrent.futures.ThreadPoolExecutor(config.max_workers, thread_name_prefix="triage")
        self._config = config
        self._server = grpc.server(workers, options=options)
        self._health = health.HealthServicer()
        host = f"[{config.host}]" if ":" in config.host else config.host
        try:
            self.port = self._server.add_insecure_port(f"{host}:{config.port}")
        except RuntimeError as error:
            raise InputError(
                f"cannot listen on {host}:{config.port}: is another server running there? Choose another --port, "
                "or 0 for any free one; --host must be an address of this machine"
            ) from error
        self.address = f"{host}:{self.port}"

    def start(self, versions: "Versions[SavedModelEngine]") -> None:
        """Starts to answer from `versions`, whose default one is loaded and warm: health is SERVING from here on."""
        services = (SERVICE, *_add_services(self._server, versions, self._config))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((*services, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
        self._server.start()
        for service in ("", *services):  # the empty name speaks for the whole server
            self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    def stop(self) -> None:
        """Turns health to NOT_SERVING, refuses new calls, and gives running ones the grace period to end."""
        self._health.enter_graceful_shutdown()
        self._server.stop(self._config.grace_seconds).wait()


def _add_services(server: grpc.Server, versions: "Versions[SavedModelEngine]", config: ServeConfig) -> tuple[str, str]:
    """Offers TriageService and TensorFlow Serving's services, and returns the names of the latter."""
    from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc  # bring in TensorFlow

    from serving import model_service, prediction_service
    from serving.service import TriageService

    triage_service_pb2_grpc.add_TriageServiceServicer_to_server(TriageService(versions, config), server)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        prediction_service.PredictionService(versions, config), server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(model_service.ModelService(versions), server)
    return prediction_service.SERVICE, model_service.SERVICE


def warm_up(engine: "Engine") -> None:
    """Runs one state through the engine, so that no client waits for TensorFlow's lazy initialisation."""
    evidence = triage_pb2.Evidence(code=engine.vocabulary.codes[0], status=triage_pb2.EVIDENCE_STATUS_PRESENT)
    engine.triage([triage_pb2.EvidenceState(evidence=[evidence])])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage serve`."""
    parser.add_argument(
        "--model-base-path", type=pathlib.Path, required=True, help="directory that holds a folder for each version"
    )
    parser.add_argument("--version", type=int, help="number of the version to serve; default: the highest")
    parser.add_argument(
        "--port-file",
        type=pathlib.Path,
        help="file to write the port to once the server answers, for use with --port 0",
    )
    for field in dataclasses.fields(ServeConfig):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            help=f"{field.metadata['help']}; default: {field.default}",
        )


def run(arguments: argparse.Namespace) -> int:
    """Serves until SIGTERM (returns 0) or Ctrl-C (returns 130).

    Raises:
        InputError: a setting is out of range, the port is taken, or there is no model that can be served.
    """
    config = ServeConfig(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(ServeConfig)})
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    server = TriageServer(config)  # before the model, so that a taken port is told at once
    from serving.engine import SavedModelEngine  # brings in TensorFlow
    from serving.versions import Versions

    engine = SavedModelEngine(find_version(arguments.model_base_path, arguments.version))
    warm_up(engine)
    versions: Versions[SavedModelEngine] = Versions(config.model_name)
    versions.publish(engine)
    signals = _EndSignals()
    server.start(versions)
    if arguments.port_file is not None:
        _write_whole(arguments.port_file, f"{server.port}\n")
    sys.stdout.write(f"listening on {server.address}, model version {engine.info.model_version}\n")
    sys.stdout.flush()
    number = signals.wait()
    server.stop()
    return 0 if number == signal.SIGTERM else 128 + number


class _EndSignals:
    """Waits for SIGTERM or SIGINT. A second one ends the process at once, as if nobody had caught it."""

    def __init__(self) -> None:
        self._came = threading.Event()
        self._number = 0
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._catch)

    def _catch(self, number: int, frame: object) -> None:
        for caught in (signal.SIGTERM, signal.SIGINT):
            signal.signal(caught, signal.SIG_DFL)
        self._number = number
        self._came.set()

    def wait(self) -> int:
        """Returns the number of the signal that came."""
        self._came.wait()
        return self._number


def _write_whole(path: pathlib.Path, text: str) -> None:
    """Writes a file that a reader sees whole or not at all."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise InputError(f"--port-file {path}: cannot write: {error.strerror or error}") from error

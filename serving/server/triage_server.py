"""A server: TriageService and TensorFlow Serving's services over gRPC, with health and reflection, and HTTP."""

import concurrent.futures
import functools
import pathlib
import threading

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from schemas.errors import InputError
from serving.admission import (
    Admission,
    Cost,
    EventLoop,
    GrpcHandler,
    HealthService,
    Listener,
    ProbePort,
    Workers,
)
from serving.config.settings import ServeConfig
from serving.engine.served_models import ServedModels, open_model
from serving.engine.watcher import Watcher
from serving.hospital.paths import hospital_paths
from serving.security import Access, LocalReloads, ServerCertificate, TokenAccess, TokenFile
from serving.server.http_port import HttpPort
from serving.server.metrics_port import MetricsPort
from serving.service import TriageService
from serving.telemetry import Telemetry
from serving.wires.http_application import application
from serving.wires.http_endpoints import Endpoints
from serving.wires.openapi import Api
from triage.v1 import triage_service_pb2, triage_service_pb2_grpc

SERVICE = triage_service_pb2.DESCRIPTOR.services_by_name["TriageService"].full_name


class TriageServer:
    """A gRPC server that binds its port when it is made and answers between `start` and `stop`.

    It answers calls on an event loop in a thread of its own, so call its methods from other threads. `admission` tells
    how many there are.

    Raises:
        InputError: the address cannot be bound, or a file of certificates, a key or tokens is faulty.
    """

    def __init__(self, config: ServeConfig):
        certificate = None
        if config.encrypted:
            certificate = ServerCertificate(config.tls_certificate, config.tls_key, config.tls_client_ca)
        tokens = TokenFile(pathlib.Path(config.tokens)) if config.tokens else None
        access: Access = LocalReloads()
        if tokens is not None:
            access = TokenAccess(tokens)
        self._config = config
        self.telemetry = Telemetry.of(config)
        self._workers = Workers(config.max_workers)
        most = config.max_workers + config.max_interviews + config.max_waiting
        pending = Cost(config.max_pending_states, config.max_pending_bytes)
        self.admission = Admission(access, most, pending)
        may_idle = frozenset([f"/{SERVICE}/Interview"])
        self._handler = GrpcHandler(self.admission, self._workers, self.telemetry, config.silence_seconds, may_idle)
        self._health = health.HealthServicer()
        self._stopped = False
        self._health_lock = threading.Lock()
        self._healthy: bool | None = None  # what health reports, None before its first report
        self._loop = EventLoop("calls")
        try:
            self._listener, self.probes = self._listen(None if certificate is None else certificate.credentials())
        except InputError:
            self._loop.close()
            raise
        self.port, self.address = self._listener.port, self._listener.address
        self.http = HttpPort(self._loop, config, certificate) if config.http_port >= 0 else None
        self._others: list[Api] = []
        metrics = self.telemetry.metrics
        self.metrics_port: MetricsPort | None = None
        if metrics is not None:
            readers = tokens if config.metrics_tokens else None
            self.metrics_port = MetricsPort(config, metrics.registry, readers, certificate)

    def start(self, *watchers: Watcher) -> None:
        """Starts answering from models, one for each watcher; the first answers requests that name none.

        Until a version of a model is loaded, calls of it end with UNAVAILABLE.

        The server also offers TensorFlow Serving's services, unless a TensorFlow Serving is the engine.
        """
        self.models = ServedModels(watchers, functools.partial(open_model, self._config))
        self.models.on_each(lambda model: self.telemetry.watch(model.versions))
        service = TriageService(self.models, self._config, self._workers, self.telemetry)
        triage_service_pb2_grpc.add_TriageServiceServicer_to_server(service, self._handler)
        services = [SERVICE]
        tf_serving = None
        if self._config.engine == "saved-model":
            from serving.wires.tf_serving import TfServing  # loads TensorFlow, an extra

            tf_serving = TfServing(self.models, self._config, self.telemetry)
            services += tf_serving.add_services(self._handler)
        health_pb2_grpc.add_HealthServicer_to_server(HealthService(self._health), self._handler)
        reflected = reflection.aio.ReflectionServicer((*services, health.SERVICE_NAME, reflection.SERVICE_NAME))
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflected, self._handler)
        self._health_services = ("", *services)
        self.update_health()
        self._listener.start()
        if self.probes is not None:
            self.probes.start()
        if self.http is not None:
            endpoints = Endpoints(self.admission, self._workers, self.telemetry, self._config)
            self._others = [] if tf_serving is None else [tf_serving.paths(endpoints)]
            self._others += hospital_paths(endpoints, service, self._config)
            self.http.start(application(endpoints, self.models, self._config, service, self._others))

    def check(self) -> None:
        """Refuses settings that do not fit the first model, once that has a version.

        Raises:
            InputError: the message names the setting.
        """
        first = next(iter(self.models)).versions
        for other in self._others if first.default is not None else ():
            with first.borrow() as engine:
                other.check(engine.vocabulary)

    def update_health(self) -> None:
        """Reports SERVING for the server ("") and each service if each model can answer, NOT_SERVING otherwise."""
        with self._health_lock:
            ready = self.models.ready
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
        if self.http is None:  # without a pool of threads, which takes no work while the interpreter exits
            self._listener.stop(self._config.grace_seconds)
        else:
            with concurrent.futures.ThreadPoolExecutor() as threads:  # at once, as the grace period is that of both
                stops = (self._listener.stop, self.http.stop)
                for stopped in [threads.submit(stop, self._config.grace_seconds) for stop in stops]:
                    stopped.result()
        if self.probes is not None:
            self.probes.stop()
        self._loop.close()
        self._workers.close()
        self.telemetry.close()
        if self.metrics_port is not None:
            self.metrics_port.close()

    def _listen(self, credentials: grpc.ServerCredentials | None) -> tuple[Listener, ProbePort | None]:
        config = self._config
        options = [
            ("grpc.max_receive_message_length", config.max_message_bytes),
            ("grpc.max_concurrent_streams", config.max_streams),
            ("grpc.max_allowed_incoming_connections", config.max_connections),
            ("grpc.so_reuseport", int(config.reuse_port)),
        ]
        address, silence = (config.host, config.port), config.silence_seconds
        try:
            listener = Listener(self._loop, self._handler, address, silence, options, credentials)
        except OSError as error:
            raise InputError(
                f"{error}: is another server running there? Choose another --port, "
                "or 0 for any free port; --host must be an address of this machine"
            ) from error
        if config.probe_port < 0:
            return listener, None
        return listener, ProbePort(self._loop, config.host, config.probe_port, self._health, silence)

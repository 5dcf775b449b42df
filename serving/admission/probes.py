"""The probe port: health, answered in threads of its own, which go on while the event loop hangs."""

import concurrent.futures
import threading
from collections.abc import Iterator

import grpc
from grpc_health.v1 import health, health_pb2

from schemas.errors import InputError
from serving.admission.admission import ConcurrencyLimit
from serving.admission.event_loop import EventLoop
from serving.admission.idle_timeout import options as idle_options
from serving.errors import ExhaustedError
from serving.security import caller_at, host_and_port

LIVENESS = "liveness"
"""The health service that reports whether the process works, regardless of what it can serve."""
BLOCKED_SECONDS = 5.0
"""How late the event loop may be; a call that blocks it for longer is a fault, and nothing else is answered."""
_PLACES = 16  # for checks whose request has not arrived
_CONNECTIONS = 64
_THREADS = 2 * _PLACES  # some are left for those that are refused


class ProbePort:
    """Answers `grpc.health.v1.Health/Check`, and nothing else, from `start` until `stop`.

    It reports the statuses of `servicer`, and SERVING for the service LIVENESS: a restart helps a process that does not
    answer, but not one that waits for a model. While the event loop has been blocked for `BLOCKED_SECONDS`, all are
    NOT_SERVING.

    Raises:
        InputError: the address cannot be bound.
    """

    def __init__(self, loop: EventLoop, host: str, port: int, servicer: health.HealthServicer, silence_seconds: float):
        self._loop, self._servicer, self._silence_seconds = loop, servicer, silence_seconds
        self._places, self._lock = ConcurrencyLimit(_PLACES), threading.Lock()
        # A stream, so that a caller who sends no request can be cut off. Check only: a Watch would last for long.
        check = grpc.stream_unary_rpc_method_handler(
            self._check, health_pb2.HealthCheckRequest.FromString, health_pb2.HealthCheckResponse.SerializeToString
        )
        self._server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="probe"),
            handlers=(grpc.method_handlers_generic_handler(health.SERVICE_NAME, {"Check": check}),),
            options=[
                *idle_options(silence_seconds),
                ("grpc.so_reuseport", 0),
                ("grpc.max_allowed_incoming_connections", _CONNECTIONS),
            ],
        )
        try:
            self.port: int = self._server.add_insecure_port(host_and_port(host, port))
        except RuntimeError as error:
            raise InputError(
                f"--probe-port: cannot listen on {host_and_port(host, port)}: is another server running there? Choose "
                "another --probe-port, 0 for any free one, or -1 for none"
            ) from error
        self.address = host_and_port(host, self.port)

    def start(self) -> None:
        """Starts answering."""
        self._server.start()

    def stop(self) -> None:
        """Closes the port."""
        self._server.stop(None).wait()

    def _check(
        self, requests: Iterator[health_pb2.HealthCheckRequest], context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        request = self._arrived(requests, context)
        response: health_pb2.HealthCheckResponse = health_pb2.HealthCheckResponse(
            status=health_pb2.HealthCheckResponse.SERVING
        )
        if request.service != LIVENESS:
            response = self._servicer.Check(request, context)
        if self._loop.late_seconds > BLOCKED_SECONDS:
            response.status = health_pb2.HealthCheckResponse.NOT_SERVING
        return response

    def _arrived(
        self, requests: Iterator[health_pb2.HealthCheckRequest], context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckRequest:
        """Returns the request, or ends the call if there is no place for it or it does not arrive."""
        caller = caller_at(context.peer())
        try:
            with self._lock:
                self._places.take(caller)
        except ExhaustedError as error:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        timer = threading.Timer(self._silence_seconds, context.cancel)
        timer.start()
        try:
            for request in requests:
                return request
        finally:
            timer.cancel()
            with self._lock:
                self._places.leave(caller)
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request is missing: send one message")
        raise AssertionError("abort always raises")

"""A port of its own for health: probes of an orchestrator speak plain text, and must not wait behind other calls."""

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from schemas.errors import InputError
from serving import silence
from serving.capacity import Workers

LIVENESS = "liveness"
"""The service to ask about whether the process itself is well, whatever it can serve now."""
_THREADS = 2


class ProbePort:
    """Answers `grpc.health.v1.Health/Check`, and nothing else, from `start` until `stop`.

    It says what `servicer` says, and SERVING for the service LIVENESS: a restart helps a process that does not answer,
    not one that waits for a model.

    Args:
        host: as in ServeConfig.
        port: number of the port, 0 for any free one.
        servicer: what the server's own port says about health.
        silence_seconds: as in ServeConfig; `serving.silence.Watch` is to look after `workers`.

    Raises:
        InputError: the address cannot be listened on.
    """

    def __init__(self, host: str, port: int, servicer: health.HealthServicer, silence_seconds: float):
        self.workers = Workers(_THREADS, "probes")
        options = [("grpc.so_reuseport", 0), *silence.options(silence_seconds)]
        self._server = grpc.server(self.workers, options=options)
        health_pb2_grpc.add_HealthServicer_to_server(_Probes(servicer), self._server)
        host = f"[{host}]" if ":" in host else host
        try:
            self.port = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise InputError(
                f"--probe-port: cannot listen on {host}:{port}: is another server running there? Choose another "
                "--probe-port, 0 for any free one, or -1 for none"
            ) from error
        self.address = f"{host}:{self.port}"

    def start(self) -> None:
        """Starts to answer."""
        self._server.start()

    def stop(self) -> None:
        """Ends the port."""
        self._server.stop(None).wait()


class _Probes(health_pb2_grpc.HealthServicer):
    """Check alone: a Watch would hold one of the few threads for as long as its caller likes."""

    def __init__(self, servicer: health.HealthServicer):
        self._servicer = servicer

    def Check(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        if request.service == LIVENESS:
            return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)
        return self._servicer.Check(request, context)

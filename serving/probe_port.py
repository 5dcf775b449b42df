"""A port of its own for health: probes of an orchestrator speak plain text, and show no token."""

from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2

from schemas.errors import InputError
from serving.event_loop import EventLoop, Workers
from serving.front import Front, Limits
from serving.listener import Listener

LIVENESS = "liveness"
"""The service to ask about whether the process itself is well, whatever it can serve now."""
_PLACES = 16  # for calls other than health, all of which are refused


class ProbePort:
    """Answers `grpc.health.v1.Health/Check`, and nothing else, from `start` until `stop`.

    It says what `servicer` says, and SERVING for the service LIVENESS: a restart helps a process that does not answer,
    not one that waits for a model. It is answered on the loop of the other calls, and so tells that this one turns.

    Args:
        loop: where it is answered.
        host: as in ServeConfig.
        port: number of the port, 0 for any free one.
        servicer: what the server's own port says about health.
        silence_seconds: as in ServeConfig.

    Raises:
        InputError: the address cannot be listened on.
    """

    def __init__(self, loop: EventLoop, host: str, port: int, servicer: health.HealthServicer, silence_seconds: float):
        self._servicer = servicer
        front = Front(Limits(_PLACES, silence_seconds), Workers(1))
        check = grpc.unary_unary_rpc_method_handler(
            self._check, health_pb2.HealthCheckRequest.FromString, health_pb2.HealthCheckResponse.SerializeToString
        )
        # Check alone: a Watch would be held for as long as its caller likes.
        front.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(health.SERVICE_NAME, {"Check": check}),))
        try:
            self._listener = Listener(loop, front, (host, port), silence_seconds)
        except OSError as error:
            raise InputError(
                f"--probe-port: {error}: is another server running there? Choose another --probe-port, 0 for any free "
                "one, or -1 for none"
            ) from error
        self.port, self.address = self._listener.port, self._listener.address

    def start(self) -> None:
        """Starts to answer."""
        self._listener.start()

    def stop(self) -> None:
        """Ends the port."""
        self._listener.stop(0)

    async def _check(self, request: health_pb2.HealthCheckRequest, context: Any) -> health_pb2.HealthCheckResponse:
        if request.service == LIVENESS:
            return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)
        return self._servicer.Check(request, context)

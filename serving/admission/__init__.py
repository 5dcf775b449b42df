"""How calls are admitted: ports, the event loop, limits, and errors as gRPC statuses."""

from serving.admission.admission import Admission
from serving.admission.arrivals import LARGE_ARRIVAL_BYTES, MOMENT_SECONDS, MOST_AMONG_LARGE
from serving.admission.budget import LARGE_BYTES, Budget, Cost, costs
from serving.admission.event_loop import EventLoop, Workers, step_back, take_short_turns
from serving.admission.grpc_handler import GrpcHandler
from serving.admission.health_service import HealthService
from serving.admission.idle_timeout import HANDSHAKE_SECONDS
from serving.admission.listener import Listener
from serving.admission.parsing import check_nesting
from serving.admission.probes import ProbePort
from serving.admission.status import end_of

__all__ = [
    "HANDSHAKE_SECONDS",
    "LARGE_ARRIVAL_BYTES",
    "LARGE_BYTES",
    "MOMENT_SECONDS",
    "MOST_AMONG_LARGE",
    "Admission",
    "Budget",
    "Cost",
    "EventLoop",
    "GrpcHandler",
    "HealthService",
    "Listener",
    "ProbePort",
    "Workers",
    "check_nesting",
    "costs",
    "end_of",
    "step_back",
    "take_short_turns",
]

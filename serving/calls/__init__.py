"""How calls reach the server: ports, the event loop, limits, and errors as gRPC statuses."""

from serving.calls.admission import Admission, Limits
from serving.calls.budget import LARGE_BYTES, Budget, Cost, costs
from serving.calls.event_loop import EventLoop, Workers, step_back, take_short_turns
from serving.calls.grpc_handler import GrpcHandler
from serving.calls.health_service import HealthService
from serving.calls.listener import Listener
from serving.calls.parsing import check_nesting
from serving.calls.probes import ProbePort
from serving.calls.status import end_of

__all__ = [
    "LARGE_BYTES",
    "Admission",
    "Budget",
    "Cost",
    "EventLoop",
    "GrpcHandler",
    "HealthService",
    "Limits",
    "Listener",
    "ProbePort",
    "Workers",
    "check_nesting",
    "costs",
    "end_of",
    "step_back",
    "take_short_turns",
]

"""How calls reach the server: ports, the event loop, limits, and errors as gRPC statuses."""

from serving.calls.budget import LARGE_BYTES, Cost, costs
from serving.calls.event_loop import EventLoop, Workers, step_back, take_short_turns
from serving.calls.front import Front, Limits
from serving.calls.health_service import HealthService
from serving.calls.listener import Listener, ProbePort

__all__ = [
    "LARGE_BYTES",
    "Cost",
    "EventLoop",
    "Front",
    "HealthService",
    "Limits",
    "Listener",
    "ProbePort",
    "Workers",
    "costs",
    "step_back",
    "take_short_turns",
]

"""What the server records about itself: metrics, traces, logs, and the audit log."""

from serving.telemetry.logs import configure as configure_logging
from serving.telemetry.recorder import Telemetry

__all__ = [
    "Telemetry",
    "configure_logging",
]

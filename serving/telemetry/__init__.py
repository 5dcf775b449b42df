"""What the server records about itself: metrics, traces, logs, and the audit log."""

from serving.telemetry.logs import configure as configure_logging
from serving.telemetry.metrics import MetricsPort
from serving.telemetry.recorder import Telemetry
from serving.telemetry.summed import files as metrics_files
from serving.telemetry.summed import registry_of as summed_registry

__all__ = [
    "MetricsPort",
    "Telemetry",
    "configure_logging",
    "metrics_files",
    "summed_registry",
]

"""Metrics of several processes as one: prometheus_client's multiprocess mode, in which each counts in files."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import prometheus_client
from prometheus_client import multiprocess
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from serving.telemetry.metrics import IN_FILES, VersionCollector

_GAUGES = ("process_virtual_memory_bytes", "process_resident_memory_bytes", "process_open_fds")
_CPU = "process_cpu_seconds"


@contextlib.contextmanager
def files() -> Iterator[pathlib.Path]:
    """Lets processes that start meanwhile count in files, and yields their directory.

    The counts of a process that has died remain, so that sums never fall.
    """
    with tempfile.TemporaryDirectory(prefix="triage-metrics-") as directory:
        os.environ[IN_FILES] = directory
        try:
            yield pathlib.Path(directory)
        finally:
            del os.environ[IN_FILES]


def registry_of(
    directory: pathlib.Path, versions: Callable[[], Sequence[Any]], processes: Callable[[], Iterable[int]]
) -> CollectorRegistry:
    """Returns the sums over all processes.

    Args:
        directory: of the files.
        versions: returns the versions of each model, as `Metrics.watch` takes them.
        processes: returns the ids of the processes that run.
    """
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry, str(directory))
    registry.register(VersionCollector(versions))
    registry.register(_ProcessCollector(processes))
    prometheus_client.PlatformCollector(registry=registry)
    return registry


class _ProcessCollector(Collector):
    """Sums processor time, memory and open files over processes; the processor time of dead ones stays in the sum."""

    def __init__(self, processes: Callable[[], Iterable[int]]):
        self._processes = processes
        self._cpu: dict[int, float] = {}

    def collect(self) -> Iterable[Metric]:
        sums = dict.fromkeys(_GAUGES, 0.0)
        for process in (os.getpid(), *self._processes()):
            one = prometheus_client.ProcessCollector(pid=lambda process=process: process, registry=None)  # type: ignore[misc]
            for metric in one.collect():
                for sample in metric.samples:
                    if sample.name in sums:
                        sums[sample.name] += sample.value
                    elif sample.name == f"{_CPU}_total":
                        self._cpu[process] = sample.value
        for name, value in sums.items():
            yield GaugeMetricFamily(name, "Sum over the server's processes", value)
        yield CounterMetricFamily(_CPU, "Processor time of the server's processes", sum(self._cpu.values()))

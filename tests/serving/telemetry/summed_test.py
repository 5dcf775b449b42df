"""Metrics of several processes as one, also after one of them has died."""

import os
import subprocess
import sys

from serving.fleet.messages import Report
from serving.models.versions import State, VersionStatus
from serving.telemetry.summed import files, registry_of

COUNT = """
from serving.call import Call
from serving.telemetry.metrics import Metrics
metrics = Metrics()
for seconds in (0.003, 0.2):
    metrics.count_call(Call("/triage.v1.TriageService/Triage"), "unary", "OK", seconds)
metrics.observe_run("triage", "3", "serving_default", 2)
"""


def test_counts_of_processes_are_summed_and_outlive_them():
    named = {"grpc_type": "unary", "grpc_service": "triage.v1.TriageService", "grpc_method": "Triage"}
    with files() as directory:
        registry = registry_of(directory, list, list)
        for number in (1, 2):
            subprocess.run([sys.executable, "-c", COUNT], check=True, timeout=60)
            assert registry.get_sample_value("grpc_server_handled_total", {**named, "grpc_code": "OK"}) == 2 * number
            bucket = {**named, "le": "0.005"}
            assert registry.get_sample_value("grpc_server_handling_seconds_bucket", bucket) == number
        of_model = {"model_name": "triage", "model_version": "3", "signature": "serving_default"}
        assert registry.get_sample_value("triage_batch_size_sum", of_model) == 4
    assert not directory.exists()
    assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ


def test_versions_are_those_of_the_reports_and_memory_is_that_of_all_processes(tmp_path):
    reports, processes = [], []
    registry = registry_of(tmp_path, lambda: reports, lambda: processes)
    assert registry.get_sample_value("triage_default_version", {"model_name": "triage"}) is None
    reports.append(Report("triage", 5, {}, (VersionStatus(5, State.AVAILABLE),)))
    assert registry.get_sample_value("triage_default_version", {"model_name": "triage"}) == 5
    alone = registry.get_sample_value("process_resident_memory_bytes")
    processes.append(os.getppid())
    assert registry.get_sample_value("process_resident_memory_bytes") > alone > 0
    processor = registry.get_sample_value("process_cpu_seconds_total")
    processes.clear()  # it has died
    assert registry.get_sample_value("process_cpu_seconds_total") >= processor > 0

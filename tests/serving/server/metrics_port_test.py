"""Prometheus reads the metrics, and nobody keeps it from that."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from serving.config.settings import ServeConfig
from serving.security import TokenFile
from serving.server.metrics_port import MetricsPort
from serving.telemetry.metrics import Metrics


def read(url, **headers):
    return httpx.get(url, headers=headers, trust_env=False, timeout=30)


@pytest.fixture
def registry():
    metrics = Metrics()
    metrics.observe_run("triage", "3", "serving_default", 2)
    return metrics.registry


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_prometheus_can_read_the_metrics(registry, host):
    port = MetricsPort(ServeConfig(metrics_port=0, metrics_host=host), registry)
    try:
        families = {family.name: family for family in text_string_to_metric_families(read(port.url).text)}
    finally:
        port.close()
    samples = {sample.name: sample.value for sample in families["triage_batch_size"].samples}
    assert samples["triage_batch_size_sum"] == 2
    assert "python_gc_objects_collected" in families
    with pytest.raises(httpx.ConnectError):
        read(port.url)


def test_with_tokens_only_those_for_metrics_may_read_them(registry, tmp_path):
    (tmp_path / "tokens").write_text("reads roles=metrics\nasks roles=call\n")
    port = MetricsPort(ServeConfig(metrics_port=0), registry, TokenFile(tmp_path / "tokens"))

    def status(**headers):
        answer = read(port.url, **headers)
        assert ("python_info" in answer.text) == (answer.status_code == 200)
        return answer.status_code

    sent = ({}, {"authorization": "Bearer other"}, {"authorization": "Bearer asks"}, {"authorization": "Bearer reads"})
    try:
        assert [status(**headers) for headers in sent] == [401, 401, 403, 200]
    finally:
        port.close()

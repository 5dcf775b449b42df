"""The HTTP port of the metrics."""

import dataclasses
import ssl
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from schemas.errors import InputError
from serving.config import ServeConfig
from serving.metrics import Metrics
from serving.metrics_port import MetricsPort


def read(url, context=None):
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context or ssl.create_default_context())
    )
    with opener.open(url, timeout=30) as answer:
        return answer.read().decode()


@pytest.fixture
def registry():
    metrics = Metrics("triage")
    metrics.model_run("3", "serving_default", 2)
    return metrics.registry


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_prometheus_can_read_the_metrics(registry, host):
    port = MetricsPort(ServeConfig(metrics_port=0, metrics_host=host), registry)
    try:
        families = {family.name: family for family in text_string_to_metric_families(read(port.url))}
    finally:
        port.close()
    samples = {sample.name: sample.value for sample in families["triage_batch_size"].samples}
    assert samples["triage_batch_size_sum"] == 2
    assert "python_gc_objects_collected" in families
    with pytest.raises(urllib.error.URLError):
        read(port.url)


def test_a_taken_port_is_told(registry):
    config = ServeConfig(metrics_port=0)
    port = MetricsPort(config, registry)
    taken = dataclasses.replace(config, metrics_port=int(port.url.split(":")[2].split("/")[0]))
    try:
        with pytest.raises(InputError, match=r"^--metrics-port: cannot listen on 127.0.0.1:\d+: Address"):
            MetricsPort(taken, registry)
    finally:
        port.close()


def test_where_the_server_is_encrypted_the_metrics_are_and_want_the_same_certificates(registry, certificates):
    config = ServeConfig(
        metrics_port=0,
        tls_certificate=certificates.server,
        tls_key=certificates.key(certificates.server),
        tls_client_ca=certificates.ca,
    )
    port = MetricsPort(config, registry)
    known = ssl.create_default_context(cafile=certificates.ca)
    stranger = ssl.create_default_context(cafile=certificates.ca)
    known.load_cert_chain(certificates.client, certificates.key(certificates.client))
    try:
        assert port.url.startswith("https://")
        assert "triage_batch_size_sum" in read(port.url, known)
        with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
            read(port.url, stranger)
    finally:
        port.close()

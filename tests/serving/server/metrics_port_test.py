"""Prometheus reads the metrics, and nobody keeps it from that."""

import re
import ssl
import urllib.error
import urllib.request

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from serving.config.settings import ServeConfig
from serving.security import ServerCertificate, TokenFile
from serving.server.metrics_port import MetricsPort
from serving.telemetry.metrics import Metrics


def certificate_of(config):
    return ServerCertificate(config.tls_certificate, config.tls_key, config.tls_client_ca)


def read(url, context=None):
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context or ssl.create_default_context())
    )
    with opener.open(url, timeout=30) as answer:
        return answer.read().decode()


@pytest.fixture
def registry():
    metrics = Metrics()
    metrics.observe_run("triage", "3", "serving_default", 2)
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


def test_where_the_server_is_encrypted_the_metrics_are_and_want_the_same_certificates(registry, certificates):
    config = ServeConfig(
        metrics_port=0,
        metrics_host="0.0.0.0",  # noqa: S104 (on purpose)
        tls_certificate=certificates.server,
        tls_key=certificates.key(certificates.server),
        tls_client_ca=certificates.ca,
    )
    port = MetricsPort(config, registry, None, certificate_of(config))
    url = re.sub("//.*:", "//127.0.0.1:", port.url)
    known = ssl.create_default_context(cafile=certificates.ca)
    stranger = ssl.create_default_context(cafile=certificates.ca)
    known.load_cert_chain(certificates.client, certificates.key(certificates.client))
    try:
        assert port.url.startswith("https://")
        assert "triage_batch_size_sum" in read(url, known)
        with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
            read(url, stranger)
    finally:
        port.close()


def test_with_tokens_only_those_for_metrics_may_read_them(registry, tmp_path):
    (tmp_path / "tokens").write_text("reads roles=metrics\nasks roles=call\n")
    port = MetricsPort(ServeConfig(metrics_port=0), registry, TokenFile(tmp_path / "tokens"))

    def status(**headers):
        answer = httpx.get(port.url, headers=headers, trust_env=False, timeout=30)
        assert ("python_info" in answer.text) == (answer.status_code == 200)
        return answer.status_code

    sent = ({}, {"authorization": "Bearer other"}, {"authorization": "Bearer asks"}, {"authorization": "Bearer reads"})
    try:
        assert [status(**headers) for headers in sent] == [401, 401, 403, 200]
    finally:
        port.close()

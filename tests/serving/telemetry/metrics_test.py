"""Counting calls, answers and versions, as Prometheus reads them."""

import dataclasses
import pathlib
import re
import ssl
import urllib.error
import urllib.request

import httpx
import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from schemas.errors import InputError
from serving.call import Call
from serving.config import ServeConfig
from serving.models.versions import State, Versions
from serving.security import TokenFile
from serving.telemetry.metrics import Metrics, MetricsPort
from triage.v1 import triage_pb2

RED, YELLOW, ASK = triage_pb2.TRIAGE_ACTION_RED, triage_pb2.TRIAGE_ACTION_YELLOW, triage_pb2.TRIAGE_ACTION_ASK


@pytest.fixture
def metrics():
    return Metrics()


def value(metrics, name, **labels):
    return metrics.registry.get_sample_value(name, labels)


def test_a_call_is_counted_by_how_it_ended_and_how_long_it_took(metrics):
    call = Call("/triage.v1.TriageService/Triage")
    metrics.count_call(call, "unary", "OK", 0.003)
    metrics.count_call(call, "unary", "OK", 0.2)
    metrics.count_call(call, "unary", "UNAVAILABLE", 0.003)
    named = {"grpc_type": "unary", "grpc_service": "triage.v1.TriageService", "grpc_method": "Triage"}
    assert value(metrics, "grpc_server_handled_total", **named, grpc_code="OK") == 2
    assert value(metrics, "grpc_server_handled_total", **named, grpc_code="UNAVAILABLE") == 1
    assert value(metrics, "grpc_server_handling_seconds_bucket", **named, le="0.005") == 2
    assert value(metrics, "grpc_server_handling_seconds_bucket", **named, le="0.25") == 3
    assert value(metrics, "grpc_server_handling_seconds_sum", **named) == pytest.approx(0.206)


def test_repeated_stages_are_one_observation(metrics):
    call = Call()
    call.model_name, call.model_version, call.signature = "triage", "3", "serving_default"
    for begin, end in ((1.0, 1.25), (2.0, 2.5)):
        call.add("queue", begin, end)
    call.add("model", 3.0, 3.125)
    metrics.observe_stages(call)
    named = {"model_name": "triage", "model_version": "3", "signature": "serving_default"}
    assert value(metrics, "triage_stage_seconds_count", **named, stage="queue") == 1
    assert value(metrics, "triage_stage_seconds_sum", **named, stage="queue") == 0.75
    assert value(metrics, "triage_stage_seconds_sum", **named, stage="model") == 0.125
    assert value(metrics, "triage_stage_seconds_count", **named, stage="respond") is None


def test_answers_are_counted_by_what_they_decide(metrics):
    rule = triage_pb2.FiredRule(rule_id="chest_pain_red")
    metrics.count_answers(
        "triage",
        [
            triage_pb2.TriageResponse(action=ASK, best_triage=YELLOW, model_version="3", unknown_codes=["a", "b"]),
            triage_pb2.TriageResponse(action=YELLOW, best_triage=YELLOW, forced=True, conflicting_codes=["c"]),
            triage_pb2.TriageResponse(action=RED, best_triage=RED, fired_rules=[rule]),
        ],
    )
    named = {"model_name": "triage", "model_version": "3"}
    assert value(metrics, "triage_actions_total", **named, action="ask") == 1
    assert value(metrics, "triage_actions_total", **named, action="Red") == 1
    assert value(metrics, "triage_urgencies_total", **named, urgency="Yellow") == 2
    assert value(metrics, "triage_forced_decisions_total", **named) == 1
    assert value(metrics, "triage_unknown_codes_total", model_name="triage", outcome="left_out") == 2
    assert value(metrics, "triage_conflicting_codes_total", **named) == 1
    assert value(metrics, "triage_rules_fired_total", **named, rule_id="chest_pain_red") == 1
    metrics.count_refused_codes("triage", 4)
    assert value(metrics, "triage_unknown_codes_total", model_name="triage", outcome="refused") == 4


def test_runs_of_the_model_are_counted_by_version_and_signature(metrics):
    for states in (1, 3, 64):
        metrics.observe_run("triage", "3", "serving_default", states)
    named = {"model_name": "triage", "model_version": "3", "signature": "serving_default"}
    assert value(metrics, "triage_batch_size_count", **named) == 3
    assert value(metrics, "triage_batch_size_sum", **named) == 68
    assert value(metrics, "triage_batch_size_bucket", **named, le="4.0") == 2


def test_two_versions_are_compared_action_by_action(metrics):
    metrics.count_comparison("triage", "shadow", ("3", "6"), [(RED, RED), (RED, YELLOW), (ASK, YELLOW), (RED, YELLOW)])
    named = {"model_name": "triage", "role": "shadow", "model_version": "3", "other_version": "6"}
    assert value(metrics, "triage_compared_answers_total", **named) == 4
    assert value(metrics, "triage_disagreements_total", **named, action="Red", other_action="Yellow") == 2
    assert value(metrics, "triage_disagreements_total", **named, action="ask", other_action="Yellow") == 1
    assert value(metrics, "triage_disagreements_total", **named, action="Red", other_action="Red") is None


def test_versions_are_read_when_prometheus_asks(metrics, engine):
    versions = Versions("triage")
    metrics.watch(versions)
    states = ("loading", "available", "unloading", "broken")
    assert [value(metrics, "triage_versions", model_name="triage", state=state) for state in states] == [0, 0, 0, 0]
    versions.publish(engine)  # version 3
    versions.set_default(3)
    versions.set_labels({"stable": 3})
    versions.note(4, State.END, "half written")
    versions.note(2, State.END)
    assert [value(metrics, "triage_versions", model_name="triage", state=state) for state in states] == [0, 1, 0, 1]
    named = {"model_name": "triage", "model_version": "4", "state": "broken"}
    assert value(metrics, "triage_version_state", **named) == 1
    assert value(metrics, "triage_default_version", model_name="triage") == 3
    named = {"model_name": "triage", "model_version": "3", "version_label": "stable"}
    assert value(metrics, "triage_version_label", **named) == 1
    assert "half written" not in prometheus_client.generate_latest(metrics.registry).decode()


def test_nothing_is_kept_of_a_version_that_is_forgotten(metrics):
    versions = Versions("triage")
    metrics.watch(versions)
    rule = triage_pb2.FiredRule(rule_id="chest_pain_red")

    def use(version):
        call = Call("/triage.v1.TriageService/Triage")
        call.model_name, call.model_version, call.signature = "triage", version, "serving_default"
        call.add("model", 1.0, 1.25)
        response = triage_pb2.TriageResponse(
            action=RED, best_triage=RED, model_version=version, forced=True, conflicting_codes=["c"], fired_rules=[rule]
        )
        metrics.count_answers("triage", [response])
        metrics.observe_stages(call)
        metrics.observe_run("triage", version, "serving_default", 1)
        metrics.count_comparison("triage", "canary", ("12", version), [(RED, ASK)])
        metrics.count_comparison("triage", "shadow", (version, "12"), [(RED, ASK)])

    def told():
        """Versions in the labels of the metrics."""
        labels = [sample.labels for metric in metrics.registry.collect() for sample in metric.samples]
        return {each[name] for each in labels for name in ("model_version", "other_version") if name in each}

    for version in range(1, 13):
        use(str(version))
    assert told() == {str(version) for version in range(1, 13)}
    for version in range(1, 12):  # eleven are unloaded, and ten of them remembered
        versions.note(version, State.END)
    versions.forget()
    assert told() == {str(version) for version in range(2, 13)}
    use("2")
    use("1")  # is loaded again, and counted from zero
    named = {"model_name": "triage", "urgency": "Red"}
    assert value(metrics, "triage_urgencies_total", **named, model_version="1") == 1
    assert value(metrics, "triage_urgencies_total", **named, model_version="2") == 2


def test_the_documentation_lists_every_metric(metrics, engine):
    versions = Versions("triage")
    metrics.watch(versions)
    text = (pathlib.Path(__file__).parents[3] / "docs" / "monitoring.md").read_text(encoding="utf-8")
    names = {family.name for family in metrics.registry.collect() if family.name.startswith(("triage_", "grpc_"))}
    assert len(names) > 10
    assert [name for name in sorted(names) if f"`{name}" not in text] == []


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


def test_a_taken_port_is_reported(registry):
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
        metrics_host="0.0.0.0",  # noqa: S104 (on purpose)
        tls_certificate=certificates.server,
        tls_key=certificates.key(certificates.server),
        tls_client_ca=certificates.ca,
    )
    port = MetricsPort(config, registry)
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


def test_on_loopback_the_metrics_are_plain_even_if_the_server_is_encrypted(registry, certificates):
    pair = {"tls_certificate": certificates.server, "tls_key": certificates.key(certificates.server)}
    port = MetricsPort(ServeConfig(metrics_port=0, **pair), registry)
    try:
        assert port.url.startswith("http://127.0.0.1:")
        assert "triage_batch_size_sum" in read(port.url)
    finally:
        port.close()


def test_with_tokens_only_those_for_metrics_may_read_them(metrics, tmp_path):
    (tmp_path / "tokens").write_text("reads roles=metrics\nasks roles=call\n")
    port = MetricsPort(ServeConfig(metrics_port=0), metrics.registry, TokenFile(tmp_path / "tokens"))

    def status(**headers):
        answer = httpx.get(port.url, headers=headers, trust_env=False, timeout=30)
        assert ("python_info" in answer.text) == (answer.status_code == 200)
        return answer.status_code

    sent = ({}, {"authorization": "Bearer other"}, {"authorization": "Bearer asks"}, {"authorization": "Bearer reads"})
    try:
        assert [status(**headers) for headers in sent] == [401, 401, 403, 200]
    finally:
        port.close()

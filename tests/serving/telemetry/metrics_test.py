"""Counting calls, answers and versions, as Prometheus reads them."""

import pathlib

import prometheus_client
import pytest

from serving.call import Call, Request
from serving.engine.versions import State, Versions
from serving.telemetry.metrics import Metrics
from triage.v1 import triage_pb2

RED, YELLOW, ASK = triage_pb2.TRIAGE_ACTION_RED, triage_pb2.TRIAGE_ACTION_YELLOW, triage_pb2.TRIAGE_ACTION_ASK


@pytest.fixture
def metrics():
    return Metrics()


def value(metrics, name, **labels):
    return metrics.registry.get_sample_value(name, labels)


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
        call = Call(Request("/triage.v1.TriageService/Triage"))
        call.model_name, call.model_version, call.signature = "triage", version, "serving_default"
        call.add("model", 1.0, 1.25)
        response = triage_pb2.TriageResponse(
            action=RED, best_triage=RED, model_version=version, forced=True, conflicting_codes=["c"], fired_rules=[rule]
        )
        metrics.count_answers("triage", [response])
        metrics.observe_stages(call)
        metrics.observe_run("triage", version, "serving_default", 1)

    def versions_shown():
        """Versions in the labels of the metrics."""
        labels = [sample.labels for metric in metrics.registry.collect() for sample in metric.samples]
        return {each["model_version"] for each in labels if "model_version" in each}

    for version in range(1, 13):
        use(str(version))
    assert versions_shown() == {str(version) for version in range(1, 13)}
    for version in range(1, 12):  # eleven are unloaded, and ten of them remembered
        versions.note(version, State.END)
    versions.forget()
    assert versions_shown() == {str(version) for version in range(2, 13)}
    use("2")
    use("1")  # is loaded again, and counted from zero
    named = {"model_name": "triage", "urgency": "Red"}
    assert value(metrics, "triage_urgencies_total", **named, model_version="1") == 1
    assert value(metrics, "triage_urgencies_total", **named, model_version="2") == 2
    assert value(metrics, "triage_conflicting_codes_total", model_name="triage", model_version="2") == 2


def test_the_documentation_lists_every_metric(metrics):
    versions = Versions("triage")
    metrics.watch(versions)
    text = (pathlib.Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    names = {family.name for family in metrics.registry.collect() if family.name.startswith(("triage_", "grpc_"))}
    assert len(names) > 10
    assert [name for name in sorted(names) if f"`{name}" not in text] == []

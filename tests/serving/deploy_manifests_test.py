"""Manifests and the Compose file: valid by their schemas, hardened, in accord with the server and each other."""

import argparse
import dataclasses
import json
import pathlib

import jsonschema
import kubernetes_validate
import pytest
import yaml

from serving import command
from serving.calls.probes import LIVENESS
from serving.config import ServeConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy" / "serving"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
OBJECTS = {
    (path.name, each["kind"], each["metadata"]["name"]): each
    for path in MANIFESTS
    for each in yaml.safe_load_all(path.read_text())
}
DEPLOYMENTS = ("deployment.yaml", "tensorflow-serving.yaml")
COMPOSE = yaml.safe_load((DEPLOY / "docker-compose.yaml").read_text())
ENTRYPOINT = ["--model-base-path", "/models", "--probe-port", "8502"]  # of the image; deploy_image_test.py compares
KUBERNETES = "1.34"


def pod(name):
    return OBJECTS[name, "Deployment", "triage"]["spec"]["template"]["spec"]


def container(name):
    return pod(name)["containers"][0]


def parsed(arguments):
    """The settings that a command line of `triage serve` would run with."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add_arguments(parser)
    options = parser.parse_args([*ENTRYPOINT, *arguments])
    command.check(options)
    return ServeConfig(**{field.name: getattr(options, field.name) for field in dataclasses.fields(ServeConfig)})


@pytest.mark.parametrize(("key", "manifest"), OBJECTS.items(), ids="-".join)
def test_a_manifest_is_valid_by_kubernetes_schema(key, manifest):
    try:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        pytest.fail(str(error))


def test_the_schema_refuses_what_kubernetes_does_not_know():
    broken = json.loads(json.dumps(OBJECTS["deployment.yaml", "Deployment", "triage"]))
    broken["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["grpc"]["tls"] = True
    with pytest.raises(kubernetes_validate.ValidationError, match="tls"):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)


def test_the_compose_file_is_valid_by_the_compose_specification():
    schema = json.loads((pathlib.Path(__file__).parent / "compose_specification" / "compose-spec.json").read_text())
    jsonschema.Draft7Validator(schema).validate(COMPOSE)
    broken = COMPOSE | {"services": COMPOSE["services"] | {"front": {"image": "x", "read_onl": True}}}
    with pytest.raises(jsonschema.ValidationError, match="read_onl"):
        jsonschema.Draft7Validator(schema).validate(broken)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_no_container_is_root_or_writes_to_its_image(name):
    assert pod(name)["securityContext"]["runAsNonRoot"]
    assert pod(name)["securityContext"]["runAsUser"] == 65532
    assert pod(name)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod(name)["automountServiceAccountToken"] is False
    for each in pod(name)["containers"]:
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert each["resources"]["limits"].keys() == {"cpu", "memory"}
        writable = [mount["mountPath"] for mount in each["volumeMounts"] if not mount.get("readOnly")]
        assert writable in ([], ["/tmp"])  # noqa: S108


@pytest.mark.parametrize("name", ["in-process", "front", "model-server"])
def test_no_composed_service_is_root_or_writes_to_its_image(name):
    service = COMPOSE["services"][name]
    assert service["user"] == "65532:65532"
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(volume["read_only"] for volume in service["volumes"])
    assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory"}


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_settings_are_those_of_a_closed_server_on_the_ports_that_the_manifest_names(name):
    config = parsed(container(name)["args"])
    ports = {port["name"]: port["containerPort"] for port in container(name)["ports"]}
    assert ports == {"grpc": config.port, "probes": config.probe_port, "metrics": config.metrics_port}
    assert config.encrypted
    assert config.tokens
    assert not config.insecure
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container(name)[probe]["grpc"]["port"] == config.probe_port
    assert container(name)["livenessProbe"]["grpc"]["service"] == LIVENESS
    assert "service" not in container(name)["readinessProbe"]["grpc"]


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_pod_has_time_to_drain(name):
    config = parsed(container(name)["args"])
    asleep = container(name)["lifecycle"]["preStop"]["sleep"]["seconds"]
    drained = asleep + config.drain_seconds + config.grace_seconds
    assert asleep >= container(name)["readinessProbe"]["periodSeconds"]
    assert pod(name)["terminationGracePeriodSeconds"] > drained
    for other in pod(name)["containers"][1:]:  # the model server must outlive it, and end in time
        assert drained < other["lifecycle"]["preStop"]["sleep"]["seconds"] < pod(name)["terminationGracePeriodSeconds"]


def test_the_composed_services_have_time_to_drain():
    for name in ("in-process", "front"):
        config = parsed(COMPOSE["services"][name]["command"])
        period = int(COMPOSE["services"][name]["stop_grace_period"].removesuffix("s"))
        assert period > config.drain_seconds + config.grace_seconds


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_file_that_a_flag_names_is_mounted_from_a_secret_or_a_volume(name):
    config = parsed(container(name)["args"])
    mounts = {mount["mountPath"]: mount["name"] for mount in container(name)["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod(name)["volumes"]}
    examples = {key[2]: each for key, each in OBJECTS.items() if key[0] == "examples.yaml"}
    for file in (config.tls_certificate, config.tls_key, config.tokens):
        folder, _, key = file.rpartition("/")
        secret = volumes[mounts[folder]]["secret"]
        assert secret["defaultMode"] == 0o440
        assert key in examples[secret["secretName"]]["stringData"]
    claim = volumes[mounts["/models"]]["persistentVolumeClaim"]
    assert claim["readOnly"]
    assert examples[claim["claimName"]]["spec"]["accessModes"] == ["ReadOnlyMany"]


def test_compose_and_kubernetes_start_the_same_server():
    """A test that starts one of them thus covers the other."""

    def comparable(arguments):
        files = {"tls_certificate": "server.pem", "tls_key": "server.key", "tokens": "tokens"}
        return dataclasses.replace(parsed(arguments), **files)

    single, front = (COMPOSE["services"][name]["command"] for name in ("in-process", "front"))
    assert comparable(single) == comparable(container("deployment.yaml")["args"])
    elsewhere = comparable(front)
    assert elsewhere.tf_serving == "model-server:8500"
    assert dataclasses.replace(elsewhere, tf_serving="127.0.0.1:9000") == comparable(
        container("tensorflow-serving.yaml")["args"]
    )


def test_the_server_in_front_asks_the_model_server_where_that_listens():
    [_, beside] = pod("tensorflow-serving.yaml")["containers"]
    assert parsed(container("tensorflow-serving.yaml")["args"]).tf_serving == "127.0.0.1:9000"
    assert "--port=9000" in beside["args"]
    assert "ports" not in beside
    behind = COMPOSE["services"]["model-server"]
    assert "--port=8500" in behind["command"]
    assert "ports" not in behind
    assert behind["networks"] == ["models"]
    assert COMPOSE["networks"]["models"]["internal"]


def test_the_other_objects_select_the_pods_and_their_ports():
    labels = OBJECTS["deployment.yaml", "Deployment", "triage"]["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"] for port in container("deployment.yaml")["ports"]}
    service = OBJECTS["service.yaml", "Service", "triage"]["spec"]
    budget = OBJECTS["scaling.yaml", "PodDisruptionBudget", "triage"]["spec"]
    policy = OBJECTS["networkpolicy.yaml", "NetworkPolicy", "triage"]["spec"]
    scaler = OBJECTS["scaling.yaml", "HorizontalPodAutoscaler", "triage"]["spec"]
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
    assert scaler["metrics"][0]["resource"]["name"] in container("deployment.yaml")["resources"]["requests"]


def test_no_image_is_of_a_version_that_moves():
    images = [each["image"] for name in DEPLOYMENTS for each in pod(name)["containers"]]
    images += [service["image"] for service in COMPOSE["services"].values()]
    for image in images:
        assert image.rpartition(":")[2].count(".") == 2, image
    assert len({image for image in images if image.startswith("tensorflow/")}) == 1


def test_the_examples_hold_nothing_that_would_let_anybody_in(tmp_path):
    from serving.security.tokens import TokenFile

    text = OBJECTS["examples.yaml", "Secret", "triage-tokens"]["stringData"]["tokens"]
    (tmp_path / "tokens").write_text(text)
    with pytest.raises(Exception, match="token"):
        TokenFile(tmp_path / "tokens")

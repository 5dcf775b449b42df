"""KServe's objects: fields that KServe has, a container that Kubernetes takes, and the ports of the server."""

import ast
import pathlib

import pytest
import yaml

from serving.admission.probes import LIVENESS
from serving.commands.serve import END_SECONDS

pytestmark = pytest.mark.slow
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="make test-all installs it")

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "kserve"
RUNTIME = yaml.safe_load((FOLDER / "servingruntime.yaml").read_text())
SERVICE = yaml.safe_load((FOLDER / "inferenceservice.yaml").read_text())
SAVED_MODEL = yaml.safe_load((FOLDER / "savedmodel.yaml").read_text())
MODEL = SERVICE["spec"]["predictor"]["model"]
[CONTAINER] = RUNTIME["spec"]["containers"]
# Objects with the modules of KServe's package that have their fields.
KSERVE = "kserve==0.21.0"
FIELDS = (
    (RUNTIME, "v1alpha1_serving_runtime"),
    (RUNTIME["spec"], "v1alpha1_serving_runtime_spec"),
    (RUNTIME["spec"]["supportedModelFormats"][0], "v1alpha1_supported_model_format"),
    (SERVICE, "v1beta1_inference_service"),
    (SERVICE["spec"], "v1beta1_inference_service_spec"),
    (SERVICE["spec"]["predictor"], "v1beta1_predictor_spec"),
    (MODEL, "v1beta1_model_spec"),
    (MODEL["modelFormat"], "v1beta1_model_format"),
    (SAVED_MODEL["spec"]["predictor"], "v1beta1_predictor_spec"),
    (SAVED_MODEL["spec"]["predictor"]["model"], "v1beta1_model_spec"),
)


@pytest.fixture(scope="module")
def config(parsed):
    """The settings that the container's command line means, after that of the image."""
    assert "--model-base-path=/mnt/models" in CONTAINER["args"]  # where KServe puts a model
    return parsed(CONTAINER["args"])


def test_the_declared_port_is_the_one_for_grpc(config):
    [port] = MODEL["ports"]
    assert (port["containerPort"], port["name"].split("-")[0]) == (config.port, "grpc")
    assert MODEL["protocolVersion"] == "grpc-v1"
    assert MODEL["protocolVersion"] in RUNTIME["spec"]["protocolVersions"]
    assert config.http_port == 8080  # KServe's, where no port is declared
    assert RUNTIME["spec"]["annotations"]["prometheus.kserve.io/port"] == str(config.metrics_port)
    assert MODEL["readinessProbe"]["grpc"] == {"port": config.probe_port}
    assert MODEL["livenessProbe"]["grpc"] == {"port": config.probe_port, "service": LIVENESS}


def test_a_pod_has_time_for_the_last_calls(config):
    assert SERVICE["spec"]["predictor"]["terminationGracePeriodSeconds"] > config.grace_seconds + END_SECONDS


def test_the_service_asks_for_the_runtime_and_its_format():
    assert MODEL["runtime"] == RUNTIME["metadata"]["name"]
    assert MODEL["modelFormat"]["name"] in [each["name"] for each in RUNTIME["spec"]["supportedModelFormats"]]


def test_the_container_is_valid_by_kubernetes_schema():
    of_service = {name: MODEL[name] for name in ("ports", "readinessProbe", "livenessProbe")}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "triage"},
        "spec": {"containers": [CONTAINER | of_service]},
    }
    try:
        kubernetes_validate.validate(pod, "1.34", strict=True)
    except kubernetes_validate.ValidationError as error:
        pytest.fail(str(error))


def test_every_field_is_one_of_kserves(environment_of):
    python = environment_of("kserve", "--no-deps", KSERVE)  # only to read: it cannot be imported so
    [models] = python.parents[1].glob("lib/*/site-packages/kserve/models")
    for values, module in FIELDS:
        tree = ast.parse((models / f"{module}.py").read_text())
        [fields] = [
            ast.literal_eval(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "attribute_map"
        ]
        assert values.keys() <= set(fields.values()), module

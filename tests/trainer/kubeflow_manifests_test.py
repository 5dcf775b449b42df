"""The manifests for Kubeflow: what the cluster would refuse, and the processes that they start."""

import json
import os
import pathlib
import re
import subprocess

import pytest
import yaml

from tests.trainer.dyqn.workers_test import free_addresses
from trainer.commands.train import DIVERGED
from trainer.dyqn.workers import LOST_WORKER, TF_CONFIG, place_of
from trainer.task import BAD_INPUT
from trainer.training.job import load_network

pytestmark = pytest.mark.slow
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="make test-all installs it")

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy" / "kubeflow"
MOUNT = "/mnt/triage"
SMALL = ["--steps=300", "--hidden-sizes", "8", "--networks", "2", "--environments", "8",
         "--batch-size", "8", "--burn-in-steps", "50"]  # fmt: skip


def test_the_image_is_built_from_the_code_alone_without_keys_or_data_beside_it():
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    let_in = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert "*" in lines
    packages = {"schemas", "triage_runtime", "trainer", "serving", "dyqn_triage", "clients/python", "proto"}
    texts = {"pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE", "triage_cli.py"}
    assert let_in == packages | texts
    assert all((ROOT / path).exists() for path in let_in)


def _documents(name):
    return {document["kind"]: document for document in yaml.safe_load_all((DEPLOY / name).read_text())}


def _validate(kind, described, version="v1"):
    """Fails for what the Kubernetes API does not know or take."""
    named = {"apiVersion": version, "kind": kind, "metadata": {"name": "triage"}, "spec": described["spec"]}
    kubernetes_validate.validate(named, "1.34", strict=True)


def _runtime():
    return _documents("trainjob.yaml")["TrainingRuntime"]["spec"]["template"]["spec"]


def _pods():
    replicas = _documents("tfjob.yaml")["TFJob"]["spec"]["tfReplicaSpecs"]
    [node] = _runtime()["replicatedJobs"]
    return {
        **{role: replica["template"] for role, replica in replicas.items()},
        "node": node["template"]["spec"]["template"],
    }


@pytest.mark.parametrize("role", ["Chief", "Worker", "node"])
def test_each_pod_is_one_that_kubernetes_knows_and_runs_without_privileges(role):
    template = _pods()[role]
    _validate("Pod", template)
    [container] = template["spec"]["containers"]
    assert template["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    claims = {volume["persistentVolumeClaim"]["claimName"] for volume in template["spec"]["volumes"] if len(volume) > 1
              and "persistentVolumeClaim" in volume}  # fmt: skip
    assert claims == {_documents("volume.yaml")["PersistentVolumeClaim"]["metadata"]["name"]}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {MOUNT, "/tmp"}  # noqa: S108


def test_job_and_volume_are_ones_that_kubernetes_knows():
    [node] = _runtime()["replicatedJobs"]
    _validate("Job", node["template"], "batch/v1")
    _validate("PersistentVolumeClaim", _documents("volume.yaml")["PersistentVolumeClaim"])
    environment = _documents("trainjob.yaml")["TrainJob"]["spec"]["trainer"]["env"]
    _validate("Pod", {"spec": {"containers": [{"name": "node", "env": environment}]}})


def test_only_processes_that_can_resume_are_restarted():
    runtime, tfjob = _runtime(), _documents("tfjob.yaml")["TFJob"]
    assert {replica["restartPolicy"] for replica in tfjob["spec"]["tfReplicaSpecs"].values()} == {"ExitCode"}
    assert LOST_WORKER >= 128 > max(DIVERGED, BAD_INPUT)  # where the operator's ExitCode draws the line
    [node] = runtime["replicatedJobs"]
    [rule] = node["template"]["spec"]["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"] == {"containerName": "node", "operator": "In", "values": [DIVERGED, BAD_INPUT]}
    assert runtime["failurePolicy"]["rules"][0]["onJobFailureReasons"] == ["PodFailurePolicy"]


def _trainjob_environments():
    """The environment of each pod of the TrainJob: JobSet's index in, `$(NAME)` replaced, as the kubelet does it."""
    job = _documents("trainjob.yaml")["TrainJob"]
    variables = job["spec"]["trainer"]["env"]
    return [_expanded(variables, index) for index in range(job["spec"]["trainer"]["numNodes"])]


def _expanded(variables, index):
    environment = {}
    for variable in variables:
        if "valueFrom" in variable:
            annotation = variable["valueFrom"]["fieldRef"]["fieldPath"]
            assert annotation == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
            environment[variable["name"]] = str(index)
        else:
            value = variable["value"]
            environment[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: environment[match[1]], value)
    return environment


def test_the_trainjob_gives_each_pod_its_place_among_the_names_of_jobset():
    documents = _documents("trainjob.yaml")
    name, nodes = documents["TrainJob"]["metadata"]["name"], documents["TrainJob"]["spec"]["trainer"]["numNodes"]
    assert documents["TrainingRuntime"]["metadata"]["name"] == documents["TrainJob"]["spec"]["runtimeRef"]["name"]
    assert documents["TrainingRuntime"]["spec"]["mlPolicy"]["numNodes"] == nodes
    for index, environment in enumerate(_trainjob_environments()):
        cluster = json.loads(environment[TF_CONFIG])["cluster"]
        assert cluster == {"worker": [f"{name}-node-0-{node}.{name}:2222" for node in range(nodes)]}
        place = place_of(environment[TF_CONFIG])
        assert (place.index, place.count) == (index, nodes)


def _started(python, container, tf_config, volume):
    """Runs what a container runs, with the volume at `volume`."""
    command = [*container["command"], *container["args"], *SMALL]
    command = [part.replace(MOUNT, str(volume)) for part in command]
    assert command[0] == "python"
    environment = os.environ | {TF_CONFIG: tf_config}
    return python.start(*command[1:], env=environment, stderr=subprocess.PIPE, text=True)


def _on_this_machine(tf_configs):
    """Replaces each pod's address by a free port of this machine."""
    hosts = sorted({host for text in tf_configs for group in json.loads(text)["cluster"].values() for host in group})
    for host, address in zip(hosts, free_addresses(len(hosts)), strict=True):
        tf_configs = [text.replace(f'"{host}"', f'"{address}"') for text in tf_configs]
    return tf_configs


def _tfjob_configs():
    """What the training operator writes into TF_CONFIG: replica types in lower case, `<job>-<type>-<index>` hosts."""
    job = _documents("tfjob.yaml")["TFJob"]
    counts = {role.lower(): replica["replicas"] for role, replica in job["spec"]["tfReplicaSpecs"].items()}
    name = job["metadata"]["name"]
    cluster = {role: [f"{name}-{role}-{i}.default.svc:2222" for i in range(count)] for role, count in counts.items()}
    return [
        json.dumps({"cluster": cluster, "task": {"type": role, "index": i}, "environment": "cloud"})
        for role, count in counts.items()
        for i in range(count)
    ]


@pytest.mark.parametrize(("kind", "workers"), [("TrainJob", 2), ("TFJob", 3)])
def test_the_processes_of_a_manifest_train_one_agent(python, data_directory, tmp_path, kind, workers):
    if kind == "TrainJob":
        container = _documents("trainjob.yaml")["TrainJob"]["spec"]["trainer"]
        tf_configs = [environment[TF_CONFIG] for environment in _trainjob_environments()]
    else:
        [container] = _pods()["Worker"]["spec"]["containers"]
        tf_configs = _tfjob_configs()
    (tmp_path / "data").symlink_to(data_directory)
    (tmp_path / "jobs").mkdir()
    processes = [_started(python, container, text, tmp_path) for text in _on_this_machine(tf_configs)]
    for process in processes:
        said = process.communicate(timeout=500)[1]
        assert process.returncode == 0, said
    [job] = (tmp_path / "jobs").iterdir()
    assert load_network(job).training["steps"] == 300
    assert json.loads((job / "run.json").read_text())["workers"] == workers

"""The processes of the chart, started with the flags that it gives them, as the user that it names.

No container engine is needed: where the test runs as root, `unshare` gives the process a read-only file system with the
one writable folder of the chart, and `setpriv` takes all rights from it. TensorFlow Serving's place is taken by this
server's own PredictionService.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving.security.tls import channel_credentials
from tests.builders import channel_to
from triage.v1 import triage_pb2
from triage_client import TriageClient, TriageError, evidence_state

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy" / "serving"
NOBODY = "65532"
SECONDS = 300
SERVING = health_pb2.HealthCheckResponse.SERVING
# Its first argument is the folder that may be written to.
CONFINE = """
set -e
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$1"
mount -o remount,bind,ro /
export TMPDIR="$1"
shift
cd /
exec setpriv --reuid 65532 --regid 65532 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
"""


@pytest.fixture(scope="module")
def folder():
    """A folder that every user may read, unlike pytest's own."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="triage-deploy-"))
    path.chmod(0o755)
    (path / "tmp").mkdir()
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def confined(folder):
    """The beginning of a confined command line, empty if this machine cannot confine."""
    prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", CONFINE, "sh", str(folder / "tmp")]
    code = "import grpc, sys; sys.path.insert(0, sys.argv[1]); import serving"
    try:
        subprocess.run([*prefix, sys.executable, "-c", code, ROOT], check=True, capture_output=True, timeout=120)
    except (OSError, subprocess.CalledProcessError):
        return []
    return prefix


@pytest.fixture(scope="module")
def mounted(folder, model_base_path, certificates):
    """The files that the chart mounts, by mount path."""
    shutil.copytree(model_base_path, folder / "models")
    (folder / "tls").mkdir()
    shutil.copy(certificates.server, folder / "tls" / "tls.crt")
    shutil.copy(certificates.key(certificates.server), folder / "tls" / "tls.key")
    (folder / "tokens").mkdir()
    (folder / "tokens" / "tokens").write_text("secret\n")
    for path in [*folder.rglob("*")]:
        if path != folder / "tmp":
            path.chmod(0o555 if path.is_dir() else 0o444)
    yield {"/models": folder / "models", "/etc/triage/tls": folder / "tls", "/etc/triage/tokens": folder / "tokens"}
    for path in [*folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Process:
    """The container of a pod as a process, on other ports."""

    def __init__(self, container, mounted, confined, folder, places=()):
        self.container = container
        self.ports = {port["containerPort"]: free_port() for port in self.container["ports"]}
        entrypoint = json.loads(re.search(r"^ENTRYPOINT (.+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)[1])
        assert entrypoint[0] == "triage"
        command = [
            self._here(argument, mounted, dict(places)) for argument in [*entrypoint[1:], *self.container["args"]]
        ]
        environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        environment["HOME"] = "/nonexistent"  # of the image's user; what asks for a home finds none without it
        environment["AIP_STORAGE_URI"] = str(mounted["/models"])
        environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'proto'}"
        self.log = (folder.parent / f"{folder.name}-{self.ports[8500]}.log").open("w+")
        self.process = subprocess.Popen(
            [*confined, sys.executable, "-m", "triage_cli", *command],
            env=environment, cwd=ROOT, stdout=self.log, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def _here(self, argument, mounted, places):
        if argument in map(str, self.ports):
            return str(self.ports[int(argument)])
        flag, equals, value = argument.rpartition("=")
        for there, here in {**mounted, **places}.items():
            if value == there or value.startswith(f"{there}/"):
                return f"{flag}{equals}{here}{value.removeprefix(there)}"
        if flag.endswith("port"):
            return f"{flag}={self.ports[int(value)]}"
        return argument

    def probe(self, name):
        """Runs the container's probe as the kubelet does: in plain text, over a new connection."""
        asked = self.container[name]["grpc"]
        address = f"127.0.0.1:{self.ports[asked['port']]}"
        with channel_to(address) as channel:
            request = health_pb2.HealthCheckRequest(service=asked.get("service", ""))
            return health_pb2_grpc.HealthStub(channel).Check(request, timeout=5.0, wait_for_ready=True).status

    def wait(self, probe="startupProbe"):
        """Waits until the probe succeeds, as long as the process lives."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            assert self.process.poll() is None, self.read()
            try:
                if self.probe(probe) == SERVING:
                    return
            except grpc.RpcError:
                continue
        raise AssertionError(f"not serving within {SECONDS} s: {self.read()}")

    def read(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()

    def end(self):
        """Stops it as the kubelet does, and returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        pathlib.Path(self.log.name).unlink()


@pytest.fixture
def start(folder, mounted, confined, rendered):
    started = []

    def start(*values, places=()):
        container = rendered(*values)["Deployment"]["spec"]["template"]["spec"]["containers"][0]
        started.append(Process(container, mounted, confined, folder, places))
        return started[-1]

    yield start
    for process in started:
        process.close()


def ask(process, certificates, token="secret"):  # noqa: S107
    credentials = channel_credentials(certificates.ca)
    address = f"127.0.0.1:{process.ports[8500]}"
    with TriageClient(address, timeout_seconds=60.0, credentials=credentials, token=token) as client:
        return client.triage(evidence_state(["chest_pain"]))


def test_the_server_of_the_deployment(start, confined, certificates):
    process = start()
    process.wait("livenessProbe")  # before there is a model
    process.wait()
    assert process.probe("readinessProbe") == SERVING
    assert ask(process, certificates).action == triage_pb2.TRIAGE_ACTION_RED
    with pytest.raises(TriageError) as error:
        ask(process, certificates, token=None)
    assert error.value.status is grpc.StatusCode.UNAUTHENTICATED
    if confined:
        status = pathlib.Path(f"/proc/{process.process.pid}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert set(fields["Uid"].split()) == set(fields["Gid"].split()) == {NOBODY}
        assert {int(fields[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")} == {0}
        assert fields["NoNewPrivs"] == "1"
        mounts = pathlib.Path(f"/proc/{process.process.pid}/mounts").read_text().splitlines()
        root = [line.split()[3].split(",") for line in mounts if line.split()[1] == "/"][-1]
        assert "ro" in root
    with urllib.request.urlopen(
        f"https://127.0.0.1:{process.ports[9090]}/metrics",
        context=ssl.create_default_context(cafile=certificates.ca),
        timeout=60,
    ) as response:
        assert b"triage" in response.read()
    assert process.end() == 0
    assert all(line.startswith("{") for line in process.read().splitlines() if "WARNING" in line)


def test_the_server_in_front_of_a_tensorflow_serving(start, server, certificates):
    # `server` answers PredictionService and ModelService in plain text, as TensorFlow Serving does.
    process = start("tensorflowServing.enabled=true", places={"127.0.0.1:9000": server.address})
    process.wait()
    assert process.probe("livenessProbe") == SERVING
    response = ask(process, certificates)
    assert (response.action, response.model_version) == (triage_pb2.TRIAGE_ACTION_RED, "3")
    assert process.end() == 0

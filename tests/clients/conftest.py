"""Servers for the client package: the real one, and a scripted one."""

import asyncio
import collections
import concurrent.futures
import contextlib
import inspect
import pathlib
import re
import shutil
import socket
import subprocess

import grpc
import pytest
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2, status_pb2

from schemas.evidence import Evidence, Vocabulary
from tests.builders import network_of, served, trained_agent, write_version
from tests.certificates import write_certificates
from triage_client import AsyncTriageClient, TriageClient
from triage_client.v1 import triage_pb2, triage_service_pb2, triage_service_pb2_grpc

NODE = pathlib.Path(__file__).resolve().parents[2] / "clients" / "node"
# What npm says where it cannot get at the packages, as opposed to not liking package.json or the lock file.
OUT_OF_REACH = re.compile(
    r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|ERR_SOCKET_TIMEOUT"
    r"|EIDLETIMEOUT|E401|E403|E404|E407|E50\d|SELF_SIGNED_CERT\w*|UNABLE_TO_\w+|DEPTH_ZERO\w*)\b"
)
# Q = sigmoid(s W): fever present gives Yellow sigmoid(1) and ask sigmoid(2), all others 1/2; chest pain Red.
WEIGHTS = ((0, 1, 0, 0, 2), (2, 0, 0, 0, 0))


@pytest.fixture(scope="session")
def server(made_once, without_litert):
    """`triage serve` with version 7 of a model of fever and chest_pain that must triage at 3 questions."""
    with served(
        made_once("clients", without_litert()(_write_model)), max_workers=2, max_interviews=2, max_batch=4, http_port=0
    ) as server:
        yield server


def _write_model(base):
    vocabulary = Vocabulary(
        Evidence(code, "symptom", code.capitalize(), f"{code}, do you have it?") for code in ("fever", "chest_pain")
    )
    write_version(base, trained_agent(network_of((WEIGHTS, 0)), vocabulary, 3), version=7)


class Awaited:
    """An asyncio client, or an interview of one, whose calls return when their answers have come."""

    def __init__(self, runner, called):
        self._runner, self._called = runner, called

    def __getattr__(self, name):
        def call(*arguments, **options):
            async def run():  # within the event loop, which the client belongs to
                returned = getattr(self._called, name)(*arguments, **options)
                return await returned if inspect.isawaitable(returned) else returned

            returned = self._runner.run(run())
            return Awaited(self._runner, returned) if name == "interview" else returned

        return call

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


@pytest.fixture(params=["synchronous", "asyncio"])
def connect(request):
    """Makes a client of an address, with the options of the constructor; it is closed after the test."""
    with contextlib.ExitStack() as clients:
        runner = clients.enter_context(asyncio.Runner())

        def connect(address, **options):
            options = {"timeout_seconds": 30.0} | options
            if request.param == "synchronous":
                return clients.enter_context(TriageClient(address, **options))

            async def make():
                return AsyncTriageClient(address, **options)

            return clients.enter_context(Awaited(runner, runner.run(make())))

        yield connect


class Scripted(triage_service_pb2_grpc.TriageServiceServicer):
    """Fails with `failures`, one a call, and then answers; records calls and tokens."""

    def __init__(self):
        self.failures = []
        self.calls = collections.Counter()
        self.tokens = []

    def _handle(self, method, context):
        self.calls[method] += 1
        self.tokens.append(dict(context.invocation_metadata()).get("authorization"))
        if self.failures:
            context.abort(self.failures.pop(0), "as scripted")

    def Triage(self, request, context):
        self._handle("Triage", context)
        return triage_pb2.TriageResponse(model_version="scripted")

    def BatchTriage(self, request, context):
        self._handle("BatchTriage", context)
        return triage_service_pb2.BatchTriageResponse()

    def GetModelInfo(self, request, context):
        self._handle("GetModelInfo", context)
        return triage_service_pb2.GetModelInfoResponse()

    def GetVocabulary(self, request, context):
        self._handle("GetVocabulary", context)
        return triage_service_pb2.GetVocabularyResponse()

    def Interview(self, request_iterator, context):
        self._handle("Interview", context)
        for request in request_iterator:
            yield triage_service_pb2.InterviewResponse(ended=request.no_more_evidence)


class Detailed(Scripted):
    """Refuses with the details of google.rpc."""

    def Triage(self, request, context):
        status = status_pb2.Status(code=3, message="two fields are wrong")
        faults = [("state.evidence[0].code", "unknown"), ("state.questions_asked", "negative")]
        violations = [
            error_details_pb2.BadRequest.FieldViolation(field=field, description=description)
            for field, description in faults
        ]
        status.details.add().Pack(error_details_pb2.BadRequest(field_violations=violations))
        delay = duration_pb2.Duration(seconds=1, nanos=500_000_000)
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, status.message)

    def BatchTriage(self, request, context):
        context.set_trailing_metadata((("grpc-status-details-bin", b"\xff no status"),))
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "see the details")


@contextlib.contextmanager
def serve(service, credentials=None):
    """Serves on a free port of this machine; yields the address."""
    executor = concurrent.futures.ThreadPoolExecutor(4)
    server = grpc.server(executor, options=[("grpc.so_reuseport", 0)])
    triage_service_pb2_grpc.add_TriageServiceServicer_to_server(service, server)
    if credentials is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()
        executor.shutdown()


@pytest.fixture
def scripted():
    """A service and its address, in plain text."""
    service = Scripted()
    with serve(service) as address:
        yield service, address


@pytest.fixture
def silent():
    """The address of a server that accepts connections and sends nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def detailed():
    """The address of a service that refuses with details; those of BatchTriage are garbled."""
    with serve(Detailed()) as address:
        yield address


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """The folder of `tests.certificates`."""
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def encrypted(certificates):
    """A service and its address, over TLS, for clients with a certificate of ca.pem."""
    pair = [(certificates / f"server.{ending}").read_bytes() for ending in ("key", "pem")]
    authority = (certificates / "ca.pem").read_bytes()
    service = Scripted()
    with serve(service, grpc.ssl_server_credentials([tuple(pair)], authority, require_client_auth=True)) as address:
        yield service, address


@pytest.fixture(scope="session")
def node_package(tmp_path_factory):
    """A copy of the Node client's folder beside the .proto files, installed and compiled."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("needs the programs node and npm")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    if int(version.lstrip("v").split(".")[0]) < 20:
        pytest.skip(f"needs Node 20 or later; this is {version.strip()}")
    top = tmp_path_factory.mktemp("node")
    folder = top / "clients" / "node"
    shutil.copytree(NODE, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (top / "proto").symlink_to(NODE.parents[1] / "proto")
    install = ["npm", "ci", "--prefer-offline", "--fetch-retries=1", "--fetch-timeout=60000"]
    installed = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=300)
    if installed.returncode and (code := OUT_OF_REACH.search(installed.stderr)):
        pytest.skip(f"needs the npm packages of clients/node/package-lock.json, which npm cannot get: {code[0]}")
    assert installed.returncode == 0, installed.stderr
    built = subprocess.run(["npm", "run", "build"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder

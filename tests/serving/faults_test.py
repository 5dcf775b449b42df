"""Faults on the server's side: versions that change all the time, killed processes, full disks, lost engines.

Slow and vanishing clients are in idle_timeout_test.py, messages that nobody would send in faults_fuzz_test.py.
"""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time
import types

import grpc
import pytest

import triage_client
from serving.config.settings import ServeConfig
from serving.engine.model_store import StoredModels
from serving.engine.served_models import LocalModels
from serving.messages import state_message
from serving.server.triage_server import TriageServer
from tests.builders import channel_to, watching
from tests.waiting import until
from triage.v1 import triage_pb2, triage_service_pb2, triage_service_pb2_grpc

RED, BLUE = triage_pb2.TRIAGE_ACTION_RED, triage_pb2.TRIAGE_ACTION_BLUE
STATE = state_message(["chest_pain"])


@pytest.fixture
def server_process(start):
    """Starts `triage serve`; returns the process and its port once it answers."""

    def run(base, port=0, *options, errors=subprocess.DEVNULL, **variables):
        command = ["-m", "triage_cli", "serve", "--model-base-path", str(base), "--port", str(port), *options]
        process = start(*command, env=os.environ | variables, stderr=errors)
        return process, int(process.stdout.readline().split(":")[1].split(",")[0])

    return run


@dataclasses.dataclass
class Ended:
    """One finished call: when it began, and its version and action or the error."""

    begin: float
    version: int = 0
    action: int = 0
    error: Exception | None = None


class Load:
    """Callers that repeat the same call, each on its own connection, for the length of a `with` block.

    Args:
        connect: makes a client.
        state: what is asked.
        error: what a call raises that failed.
    """

    def __init__(self, connect, state, error, callers=4):
        self.ended = []
        self._connect, self._state, self._error = connect, state, error
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(callers)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        self.wait(50)
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def failed(self):
        return [call for call in self.ended if call.error]

    def wait(self, answers):
        """Returns after a number of further answers; fails if they do not come."""
        wanted = len(self.ended) - len(self.failed) + answers
        until(lambda: len(self.ended) - len(self.failed) >= wanted)

    def _call(self):
        with self._connect() as client:
            while not self._stop.is_set():
                begin = time.monotonic()
                try:
                    answer = client.triage(self._state)
                    call = Ended(begin, int(answer.model_version), answer.action)
                except self._error as error:
                    call = Ended(begin, error=error)
                    time.sleep(0.01)
                self.ended.append(call)


class Shelf:
    """A base path in which versions take turns: those of even numbers decide Red, those of odd ones Blue."""

    def __init__(self, base, model_base_path, contrary_version):
        self.base, self.newest = base, 1
        self._folders = (model_base_path / "3", contrary_version)
        base.mkdir()
        self.publish()

    def publish(self):
        """Publishes the next version in one step, and deletes the one before the last."""
        self.newest += 1
        partial = self.base.with_name("partial")
        shutil.copytree(self._folders[self.newest % 2], partial)
        partial.rename(self.base / str(self.newest))
        shutil.rmtree(self.base / str(self.newest - 2), ignore_errors=True)

    @staticmethod
    def wrong(calls):
        """The answers that do not match the version they name."""
        return [call for call in calls if not call.error and call.action != (BLUE if call.version % 2 else RED)]


@pytest.fixture
def shelf(tmp_path, model_base_path, contrary_version):
    return Shelf(tmp_path / "models", model_base_path, contrary_version)


@contextlib.contextmanager
def stub_client(address):
    """Calls the generated stub, which does not retry."""
    with channel_to(address) as channel:
        stub = triage_service_pb2_grpc.TriageServiceStub(channel)
        request = triage_service_pb2.TriageRequest
        yield types.SimpleNamespace(triage=lambda state: stub.Triage(request(state=state), timeout=60.0))


@pytest.mark.slow
def test_no_request_fails_and_each_answer_is_its_versions_while_versions_are_swapped(server_process, shelf):
    _, port = server_process(shelf.base, 0, "--poll-seconds", "0.05")
    with Load(lambda: stub_client(f"127.0.0.1:{port}"), STATE, grpc.RpcError) as load:
        for _ in range(2):
            shelf.publish()
            until_version(load, shelf.newest)
    assert load.failed == []
    assert Shelf.wrong(load.ended) == []
    assert {call.version for call in load.ended} >= {2, 3, 4}


def until_version(load, version):
    """Returns when answers come from `version`."""
    until(lambda: load.ended[-1].version == version)


def with_retries(*ports):
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
    return Load(
        lambda: triage_client.TriageClient(f"ipv4:{addresses}", timeout_seconds=60.0),
        triage_client.evidence_state(["chest_pain"]),
        triage_client.TriageError,
    )


@pytest.mark.slow
def test_a_server_that_is_killed_fails_no_call_where_there_is_another(server_process, shelf, serving):
    process, port = server_process(shelf.base)
    with serving() as other:
        with with_retries(port, other.port) as load:
            assert {call.version for call in load.ended} == {2}
            process.kill()
            process.wait()
            killed = time.monotonic()
            until_version(load, 3)
            load.wait(50)
        assert [call.error for call in load.failed if call.begin > killed] == []
        answers = {(call.version, call.action) for call in load.ended if not call.error}
        assert answers == {(2, RED), (3, RED)}  # the other's version 3 is the one of `model_base_path`


def test_a_server_that_ends_tells_callers_to_try_again_and_cancels_none(watcher):
    server = TriageServer(ServeConfig(port=0, grace_seconds=30.0))
    server.start(watcher)
    with Load(lambda: stub_client(server.address), STATE, grpc.RpcError, callers=16) as load:
        server.stop()
    assert {call.error.code() for call in load.failed} == {grpc.StatusCode.UNAVAILABLE}


@pytest.mark.slow
def test_a_server_ends_in_time_and_logs_json_alone_although_a_version_would_hang_and_strangers_knock(
    server_process, model_base_path, certificates, tmp_path
):
    base = shutil.copytree(model_base_path, tmp_path / "models")
    pair = ["--tls-certificate", certificates.server, "--tls-key", certificates.key(certificates.server)]
    options = ["--poll-seconds", "0.1", "--grace-seconds", "1", "--log-format", "json", *pair]
    with (tmp_path / "log").open("w") as log:
        process, port = server_process(base, 0, *options, errors=log, TF_CPP_MIN_LOG_LEVEL="0")
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                plain.recv(100)
    shutil.copytree(base / "3", tmp_path / "4")
    (tmp_path / "4" / "manifest.json").unlink()
    os.mkfifo(tmp_path / "4" / "manifest.json")  # whoever reads it would wait
    (tmp_path / "4").rename(base / "4")
    until(lambda: "manifest.json" in (tmp_path / "log").read_text())
    credentials = triage_client.tls_credentials(certificates.ca)
    with triage_client.TriageClient(f"127.0.0.1:{port}", timeout_seconds=60.0, credentials=credentials) as client:
        assert client.triage(triage_client.evidence_state(["chest_pain"])).model_version == "3"
    process.terminate()
    assert process.wait(30) == 0
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line for line in lines if not line.startswith("{")] == []
    assert len(lines) < 10


def decides(watcher):
    """Returns the version that answers, and its action."""
    with watcher.versions.borrow() as engine:
        (response,) = engine.triage([STATE])
    return int(response.model_version), response.action


def test_a_disk_that_is_full_when_a_version_is_fetched_leaves_the_old_one(
    object_store, model_base_path, contrary_version, full_disk, caplog
):
    object_store.put(model_base_path / "3", "gs://bucket/models/3")
    store = StoredModels(LocalModels(), "gs://bucket/models")
    watcher = watching(store.folder, store)
    object_store.put(contrary_version, "gs://bucket/models/4")
    with full_disk((contrary_version / "saved_model.pb").stat().st_size // 2):
        watcher.look()
    assert "gs://bucket/models: cannot read" in caplog.text
    assert decides(watcher) == (3, RED)
    assert watcher.ready
    assert [path.name for path in store.folder.parent.iterdir()] == ["models"], "nothing keeps the disk full"
    assert [path.name for path in store.folder.iterdir()] == ["3"]
    watcher.look()
    assert decides(watcher) == (4, BLUE)


def test_what_a_full_disk_leaves_of_a_version_is_not_served(model_base_path, contrary_version, tmp_path):
    base = tmp_path / "models"
    shutil.copytree(model_base_path / "3", base / "3")
    watcher = watching(base)
    files = sorted(path.relative_to(contrary_version) for path in contrary_version.rglob("*") if path.is_file())
    assert pathlib.Path("saved_model.pb") in files
    for number, name in enumerate(files):  # the copy stopped in each file in turn
        version = shutil.copytree(contrary_version, base / "4", dirs_exist_ok=True)
        for later in files[number + 1 :]:
            (version / later).unlink(missing_ok=True)
        content = (contrary_version / name).read_bytes()
        (version / name).write_bytes(content[: len(content) // 2])
        watcher.look()
        assert decides(watcher) == (3, RED), name
    shutil.copytree(contrary_version, base / "4", dirs_exist_ok=True)
    watcher.look()
    assert decides(watcher) == (4, BLUE)

"""What a worker does as it is told, with a real server in this process."""

import multiprocessing
import shutil
import socket
import threading

import grpc
import pytest
from tensorflow_serving.apis import model_management_pb2, model_service_pb2_grpc

from serving.config import ServeConfig
from serving.fleet.messages import PREPARE, SERVE, STOP, Pinned
from serving.fleet.ports import HeldPort
from serving.fleet.worker import Worker
from serving.models.version_policy import Wanted
from triage_client import TriageClient, evidence_state


class Told:
    """A worker in a thread, and the other end of its pipe."""

    def __init__(self, config, base, **labels):
        self.connection, other = multiprocessing.Pipe()
        worker = Worker(other, config, [(config, Wanted(base, labels=labels))])
        self.thread = threading.Thread(target=worker.run)
        self.thread.start()

    def ask(self, kind, details=None):
        self.connection.send((17, kind, details))
        assert self.connection.poll(60)
        number, done, result = self.connection.recv()
        assert number == 17
        return done, result

    def stop(self):
        self.connection.send((18, STOP, None))
        self.thread.join(60)
        assert not self.thread.is_alive()


@pytest.fixture
def base(model_base_path, tmp_path):
    shutil.copytree(model_base_path / "3", tmp_path / "models" / "3")
    return tmp_path / "models"


@pytest.fixture
def config():
    held = HeldPort("127.0.0.1", 0, "--port")
    yield ServeConfig(port=held.number, processes=2, grace_seconds=0.0)
    held.close()


@pytest.fixture
def worker(config, base):
    worker = Told(config, base)
    yield worker
    worker.connection.close()  # as when the supervisor dies
    worker.thread.join(60)
    assert not worker.thread.is_alive()


def pinned(version):
    return {"triage": Pinned(frozenset([version]), {})}


def test_a_worker_listens_only_once_it_can_answer(worker, config):
    assert worker.ask(PREPARE) == (True, pinned(3))
    with pytest.raises(ConnectionRefusedError):  # others get all connections until then
        socket.create_connection(("127.0.0.1", config.port))
    done, [report] = worker.ask(SERVE, pinned(3))
    assert (done, report.model_name, report.default) == (True, "triage", 3)
    assert [(status.version, status.state.name) for status in report.statuses()] == [(3, "AVAILABLE")]
    with TriageClient(f"127.0.0.1:{config.port}", timeout_seconds=30.0) as client:
        assert client.triage(evidence_state(["fever"])).model_version == "3"


def test_a_new_version_is_loaded_and_waits_until_it_is_to_be_served(worker, config, base, model_base_path):
    worker.ask(SERVE, pinned(3))
    shutil.copytree(model_base_path / "3", base / "5")
    with TriageClient(f"127.0.0.1:{config.port}", timeout_seconds=30.0) as client:
        assert worker.ask(PREPARE) == (True, pinned(5))
        assert client.triage(evidence_state(["fever"])).model_version == "3"
        done, reason = worker.ask(SERVE, pinned(7))
        assert not done
        assert reason.startswith("no such version of triage can be served")
        assert client.triage(evidence_state(["fever"])).model_version == "3"
        assert worker.ask(SERVE, pinned(5))[0]
        assert client.triage(evidence_state(["fever"])).model_version == "5"


def test_two_workers_share_a_port_and_one_goes_on_without_the_other(worker, config, base):
    worker.ask(SERVE, pinned(3))
    other = Told(config, base)
    assert other.ask(SERVE, pinned(3))[0]
    other.stop()
    with TriageClient(f"127.0.0.1:{config.port}", timeout_seconds=30.0) as client:
        assert client.triage(evidence_state(["fever"])).model_version == "3"


def test_one_worker_cannot_be_given_another_configuration(worker, config, base):
    worker.ask(SERVE, pinned(3))
    request = model_management_pb2.ReloadConfigRequest()
    request.config.model_config_list.config.add(name="triage", base_path=str(base), model_platform="tensorflow")
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"127.0.0.1:{config.port}", options=options) as channel:
        stub = model_service_pb2_grpc.ModelServiceStub(channel)
        with pytest.raises(grpc.RpcError) as error:
            stub.HandleReloadConfigRequest(request, timeout=30)
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert error.value.details().startswith("with --processes the configuration stays")


def test_a_label_without_its_version_is_the_reason_of_a_refusal_at_the_start(config, base):
    worker = Told(config, base, stable=7)
    assert worker.ask(PREPARE) == (False, f"{base}: no version 7: the versions here are 3")
    worker.stop()


def test_a_faulty_setting_is_the_reason_of_a_refusal(config, base, tmp_path):
    worker = Told(ServeConfig(port=config.port, processes=2, tokens=str(tmp_path / "none")), base)
    assert worker.ask(PREPARE)[0]
    done, reason = worker.ask(SERVE, pinned(3))
    assert (done, "none: cannot read: No such file" in reason) == (False, True)
    worker.stop()

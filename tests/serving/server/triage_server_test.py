"""The server around the service: health, reflection and ports."""

import logging
import queue
import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from serving.config.settings import ServeConfig
from serving.engine.model_config import ModelConfig
from serving.engine.served_models import open_model
from serving.messages import state_message
from serving.server.triage_server import TriageServer
from tests.builders import channel_to, http_to, served, watching
from tests.serving.conftest import Gated
from tests.waiting import until
from triage.v1 import triage_service_pb2, triage_service_pb2_grpc
from triage_client import TriageAction, TriageClient, TriageError, UnavailableError, evidence_state

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


SERVICES = [
    "triage.v1.TriageService", "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService",
]  # fmt: skip


def services_of(server):
    """What reflection lists."""
    with channel_to(server.address) as channel:
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=30)
    return {service.name for service in answer.list_services_response.service}


OF_GRPC = {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}


def test_reflection_lists_the_services_and_with_a_remote_engine_only_the_typed_one(server, remote_server):
    assert services_of(server) == {*SERVICES, *OF_GRPC}
    assert services_of(remote_server) == {SERVICES[0], *OF_GRPC}


def test_a_server_without_a_version_is_not_serving_until_one_is_warm(model_base_path, tmp_path):
    watcher = watching(tmp_path)
    with (
        served(watcher) as server,
        TriageClient(server.address, timeout_seconds=30.0) as client,
        channel_to(server.address) as channel,
    ):
        requests = [health_pb2.HealthCheckRequest(service=service) for service in ("", *SERVICES)]
        stub = health_pb2_grpc.HealthStub(channel)
        assert {stub.Check(request, timeout=30).status for request in requests} == {NOT_SERVING}
        with pytest.raises(TriageError) as error:
            client.triage(evidence_state(["fever"]))
        assert error.value.status is grpc.StatusCode.UNAVAILABLE
        assert "ready" in error.value.message
        (tmp_path / "3").symlink_to(model_base_path / "3")
        watcher.look()
        server.update_health()
        assert {stub.Check(request, timeout=30).status for request in requests} == {SERVING}
        assert client.triage(evidence_state(["fever"])).model_version == "3"


def test_a_stop_turns_health_off_and_lets_a_running_call_end(gated):
    server = TriageServer(ServeConfig(port=0, grace_seconds=120))
    server.start(gated.watcher())
    answers = []
    with TriageClient(server.address, timeout_seconds=30.0) as client, channel_to(server.address) as channel:
        changes = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=30)
        statuses = [next(changes).status]
        call = threading.Thread(target=lambda: answers.append(client.triage(evidence_state(["fever"]))))
        call.start()
        gated.asked.get(timeout=60)
        stop = threading.Thread(target=server.stop)
        stop.start()
        statuses.append(next(changes).status)
        changes.cancel()
        gated.gate.set()
        call.join()
        stop.join()
        with pytest.raises(TriageError) as error:
            client.triage(evidence_state(["fever"]))
    assert statuses == [SERVING, NOT_SERVING]
    assert [answer.model_version for answer in answers] == ["3"]
    assert error.value.status is grpc.StatusCode.UNAVAILABLE


def ask_at_once(channel, number, ended):
    """Puts each of `number` calls into the queue `ended` as it ends."""
    request = triage_service_pb2.TriageRequest(state=state_message(["fever"]))
    stub = triage_service_pb2_grpc.TriageServiceStub(channel)
    for _ in range(number):
        stub.Triage.future(request, timeout=60).add_done_callback(ended.put)


def refused(client):
    try:
        client.model_info()
    except UnavailableError:
        return True
    return False


def test_the_grace_period_of_both_protocols_is_the_same_one(gated):
    with (
        served(gated.watcher(), http_port=0, grace_seconds=600.0) as server,
        http_to(server) as http,
        TriageClient(server.address, timeout_seconds=30.0) as client,
    ):
        body = {"present": ["fever"]}
        held = threading.Thread(target=http.post, args=("/v1/triage",), kwargs={"json": body})
        held.start()
        gated.asked.get(timeout=30)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        try:
            until(lambda: refused(client))  # long before the grace period of the call over HTTP has passed
            assert held.is_alive()
        finally:
            gated.gate.set()
            for thread in (held, stopping):
                thread.join(30)


def test_one_connection_cannot_fill_the_server(gated):
    ended, other_ended = queue.SimpleQueue(), queue.SimpleQueue()
    # 2 calls of the one connection, 2 whose threads have answered and not yet ended, and the other's are 5 of 2 + 4.
    settings = {"max_workers": 1, "max_interviews": 1, "max_waiting": 4, "max_streams": 2}
    apart = [
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]  # otherwise both would share a connection
    with (
        served(gated.watcher(), **settings) as server,
        channel_to(server.address) as channel,
        grpc.insecure_channel(server.address, options=apart) as other,
    ):
        ask_at_once(channel, 50, ended)
        ask_at_once(other, 1, other_ended)
        gated.gate.set()
        codes = {ended.get(timeout=30).code() for _ in range(50)}
        assert other_ended.get(timeout=30).code() is grpc.StatusCode.OK
    # gRPC refuses a stream with UNAVAILABLE that arrives before the end of another one is processed.
    assert grpc.StatusCode.OK in codes
    assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}


class BrokenEngine(Gated):
    """An engine whose error contains the evidence."""

    def triage(self, states, wishes=()):
        raise RuntimeError(f"cannot answer {states}")


def test_no_output_contains_evidence(engine, caplog, capfd):
    secret = triage_service_pb2.TriageRequest(state=state_message(["chest_pain"])).SerializeToString()
    with (
        caplog.at_level(logging.DEBUG),
        served(BrokenEngine(engine).watcher()) as server,
        TriageClient(server.address, timeout_seconds=30.0) as client,
        channel_to(server.address) as channel,
    ):
        raw = channel.unary_unary("/triage.v1.TriageService/Triage")
        for call, code in (
            (lambda: client.triage(evidence_state(["chest_pain"])), "INTERNAL"),
            (lambda: client.batch_triage([evidence_state(["chest_pain"])]), "INTERNAL"),
            (lambda: client.interview(timeout_seconds=30).present("chest_pain"), "INTERNAL"),
            (lambda: client.triage(evidence_state(["chest_pains"])), "INVALID_ARGUMENT"),
            (lambda: client.interview(timeout_seconds=30).present("chest_pains"), "INVALID_ARGUMENT"),
            (lambda: raw(secret[:-1], timeout=30), "INVALID_ARGUMENT"),  # cannot be parsed
        ):
            with pytest.raises((TriageError, grpc.RpcError)) as error:
                call()
            ended = error.value
            assert (ended.status if isinstance(ended, TriageError) else ended.code()).name == code
    written = caplog.text + "".join(capfd.readouterr())
    assert "Triage: unexpected RuntimeError" in written  # the log is not empty
    assert "chest_pain" not in written


def test_with_litert_alone_the_typed_service_is_offered_over_both_protocols(model_base_path):
    watcher = open_model(ServeConfig(http_port=0, engine="litert"), ModelConfig("triage", str(model_base_path)))
    watcher.look()
    with served(watcher, http_port=0, engine="litert") as server:
        with TriageClient(server.address, timeout_seconds=30) as client:
            assert client.triage(evidence_state(["chest_pain"])).action == TriageAction.TRIAGE_ACTION_RED
        with http_to(server) as http:
            body = {"present": ["chest_pain"]}
            assert http.post("/v1/triage", json=body).json()["action"] == "Red"
            assert http.get("/v1/models/triage").status_code == 404
        assert services_of(server) == {SERVICES[0], *OF_GRPC}

"""The servers for comparison do their work."""

import json

import pytest

from serving.bench.peers import MODEL_SECONDS, SERVICE, empty_handlers, plain_handlers, start
from serving.messages import state_message
from tests.builders import channel_to
from triage.v1 import triage_pb2, triage_service_pb2


@pytest.fixture
def call():
    """Starts a server of some handlers and calls one of its methods."""
    servers = []

    def run(handlers, method, request):
        server, port = start(handlers)
        servers.append(server)
        with channel_to(f"127.0.0.1:{port}") as channel:
            return channel.unary_unary(f"/{SERVICE}/{method}")(request, timeout=30)

    yield run
    for server in servers:
        server.stop(0).wait()


def test_the_empty_handler_takes_any_bytes_and_returns_so_many(call):
    assert call(empty_handlers(7), "Triage", b"no message") == bytes(7)


def test_the_plain_server_answers_with_the_model(call, model_base_path, hand_set):
    request = triage_service_pb2.TriageRequest(state=state_message(["fever"])).SerializeToString()
    answer = triage_pb2.TriageResponse.FromString(call(plain_handlers(model_base_path / "3"), "Triage", request))
    assert [q_value.value for q_value in answer.q_values] == pytest.approx(hand_set.fever_q, abs=1e-6)


def test_the_plain_server_reports_how_long_its_model_takes(call, model_base_path):
    request = triage_service_pb2.TriageRequest(state=state_message(["fever"])).SerializeToString()
    seconds = json.loads(call(plain_handlers(model_base_path / "3"), MODEL_SECONDS, request))
    assert 1e-6 < seconds < 10

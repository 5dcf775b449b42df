"""HTTP requests have the limits, ids, tokens and records of gRPC calls."""

import contextlib
import json
import select
import socket
import ssl
import threading

import httpx
import pytest

from serving.wires import http_endpoints
from tests.builders import counted, http_to, served
from tests.waiting import until

FEVER = {"present": ["fever"]}


def test_the_callers_request_id_comes_back_and_stands_in_problems(http):
    headers = {"x-request-id": "r-17"}
    assert http.post("/v1/triage", json=FEVER, headers=headers).headers["x-request-id"] == "r-17"
    failed = http.post("/v1/triage", json={"present": ["gout"]}, headers=headers)
    assert (failed.headers["x-request-id"], failed.json()["request_id"]) == ("r-17", "r-17")
    assert http.get("/v1/model").headers["x-request-id"]


def test_a_large_body_has_to_say_how_large_it_is(http):
    answer = http.post("/v1/triage", content=(b" " * 9_000 for _ in range(3)))
    assert answer.status_code == 411
    body = json.dumps({"states": [FEVER] * 70}) + " " * 60_000
    assert len(http.post("/v1/triage", content=body.encode()).json()["answers"]) == 70


def test_two_large_bodies_are_read_at_a_time_and_slow_ones_are_not_waited_for(watcher, monkeypatch):
    content = json.dumps({"states": [FEVER] * 70}).encode() + b" " * 256 * 1024
    head = b"POST /v1/triage HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(content)

    def begun(server, sent):
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.http.port), timeout=30))
        connection.sendall(head + sent)
        return connection

    with served(watcher, http_port=0) as server, contextlib.ExitStack() as stack:
        for _ in range(2):
            begun(server, content[:-1])  # which stay where they are
        assert begun(server, content).recv(4096).startswith(b"HTTP/1.1 200 ")
        monkeypatch.setattr(http_endpoints, "MOMENT_SECONDS", 60.0)
        slow, others = [begun(server, content[:-1]) for _ in range(2)], stack.enter_context(http_to(server))
        others.get("/healthz")  # they are read by now
        third = begun(server, content)
        for _ in range(10):  # which are answered though they come later
            others.get("/healthz")
        assert select.select([third], [], [], 0) == ([], [], [])
        slow[0].sendall(content[-1:])
        assert third.recv(4096).startswith(b"HTTP/1.1 200 ")


@contextlib.contextmanager
def serving_http(watcher, **settings):
    with served(watcher, http_port=0, **settings) as server, http_to(server) as client:
        yield server, client


def test_answers_and_refusals_are_counted_by_the_statuses_of_grpc(watcher, tmp_path):
    (tmp_path / "tokens").write_text("secret-1\n")
    with serving_http(watcher, tokens=str(tmp_path / "tokens"), metrics_port=0) as (server, client):
        for token in ("secret-1", "secret-2"):
            client.post("/v1/triage", json=FEVER, headers={"authorization": f"Bearer {token}"})
        named = {"grpc_type": "unary", "grpc_service": "http", "grpc_method": "v1/triage"}
        for code in ("OK", "UNAUTHENTICATED"):
            assert counted(server, "grpc_server_handled_total", **named, grpc_code=code) == 1


def test_calls_of_both_kinds_share_the_places(gated):
    settings = {"max_workers": 1, "max_interviews": 1, "max_waiting": 0}
    with serving_http(gated.watcher(), **settings) as (server, client):
        waiting = [threading.Thread(target=lambda: client.post("/v1/triage", json=FEVER)) for _ in range(2)]
        for thread in waiting:
            thread.start()
        gated.asked.get(timeout=30)
        until(lambda: server.admission.concurrency.taken == 2)
        with http_to(server) as other:
            refused = other.post("/v1/triage", json=FEVER)
        gated.gate.set()
        for thread in waiting:
            thread.join()
    assert (refused.status_code, refused.json()["reason"]) == (429, "OVERLOADED")
    assert refused.headers["retry-after"] == "1"


def test_over_tls_a_client_certificate_is_wanted_where_grpc_wants_one(watcher, tls, certificates):
    with serving_http(watcher, tls_client_ca=certificates.ca, **tls) as (server, _):
        assert server.http.url.startswith("https://")
        known, unknown, stranger = (ssl.create_default_context(cafile=certificates.ca) for _ in range(3))
        known.load_cert_chain(certificates.client, certificates.key(certificates.client))
        stranger.load_cert_chain(certificates.stranger, certificates.key(certificates.stranger))
        with httpx.Client(verify=known, trust_env=False, timeout=60) as client:
            assert client.post(f"{server.http.url}/v1/triage", json=FEVER).json()["action"] == "ask"
        for refused in (unknown, stranger):
            with httpx.Client(verify=refused, trust_env=False, timeout=60) as client, pytest.raises(httpx.HTTPError):
                client.get(f"{server.http.url}/readyz")

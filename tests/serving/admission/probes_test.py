"""The probe port: what the server says about itself, also while its event loop hangs."""

import contextlib
import queue
import threading

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from serving.admission import probes
from serving.admission.probes import LIVENESS, ProbePort
from serving.server.triage_server import SERVICE
from tests.builders import channel_to
from tests.waiting import until
from triage.v1 import triage_service_pb2, triage_service_pb2_grpc

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def check(address, service=""):
    """Checks a port as a probe does: over a new connection each time."""
    with channel_to(address) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        return health_pb2_grpc.HealthStub(channel).Check(request, timeout=30).status


def test_it_says_what_the_server_says_in_plain_text_where_the_server_wants_tls_and_a_token(
    serving, tls, certificates, tmp_path
):
    (tmp_path / "tokens").write_text("secret\n")
    wanted = {"tls_client_ca": certificates.ca, "tokens": str(tmp_path / "tokens")}
    with serving(probe_port=0, **tls, **wanted) as server, channel_to(server.probes.address) as channel:
        address = server.probes.address
        assert [check(address, service) for service in ("", SERVICE, LIVENESS)] == [SERVING] * 3
        # and no other service is offered there
        watch = health_pb2_grpc.HealthStub(channel).Watch
        triage = triage_service_pb2_grpc.TriageServiceStub(channel).Triage
        for call, code in (
            (lambda: triage(triage_service_pb2.TriageRequest(), timeout=30), grpc.StatusCode.UNIMPLEMENTED),
            (lambda: next(watch(health_pb2.HealthCheckRequest(), timeout=30)), grpc.StatusCode.UNIMPLEMENTED),
            (lambda: check(address, "other"), grpc.StatusCode.NOT_FOUND),
        ):
            with pytest.raises(grpc.RpcError) as error:
                call()
            assert error.value.code() is code


@pytest.fixture
def opened(loop):
    """Opens a probe port for the length of a `with` block."""

    @contextlib.contextmanager
    def probe_port(silence_seconds=20.0):
        servicer = health.HealthServicer()
        servicer.set("", SERVING)
        port = ProbePort(loop, "127.0.0.1", 0, servicer, silence_seconds)
        port.start()
        try:
            yield port, servicer
        finally:
            port.stop()

    return probe_port


def test_a_process_that_cannot_serve_is_alive(opened):
    with opened() as (port, servicer):
        servicer.set("", NOT_SERVING)
        assert [check(port.address), check(port.address, LIVENESS)] == [NOT_SERVING, SERVING]
        servicer.set("", SERVING)
        servicer.enter_graceful_shutdown()
        assert [check(port.address), check(port.address, LIVENESS)] == [NOT_SERVING, SERVING]


def test_while_the_event_loop_is_blocked_nothing_is_serving(opened, loop, monkeypatch):
    monkeypatch.setattr(probes, "BLOCKED_SECONDS", 0.5)
    begun, goes_on = threading.Event(), threading.Event()

    def block():
        begun.set()
        goes_on.wait(60)

    with opened() as (port, _):

        def statuses():
            return [check(port.address), check(port.address, LIVENESS)]

        try:
            until(lambda: statuses() == [SERVING, SERVING])
            loop.loop.call_soon_threadsafe(block)
            assert begun.wait(60)
            until(lambda: statuses() == [NOT_SERVING, NOT_SERVING])
            goes_on.set()
            until(lambda: statuses() == [SERVING, SERVING])
        finally:
            goes_on.set()


def begin_silent(channel, number):
    """Begins checks that send no request; returns the queue that they get into as they end."""
    ended, checks = queue.SimpleQueue(), channel.stream_unary(f"/{health.SERVICE_NAME}/Check")
    for _ in range(number):
        checks.future(iter(queue.SimpleQueue().get, None)).add_done_callback(ended.put)
    return ended


OWN = ("grpc.use_local_subchannel_pool", 1)


def test_callers_who_send_no_request_leave_room_for_others(opened):
    with opened(600.0) as (port, _), channel_to(port.address, OWN) as channel:
        ended = begin_silent(channel, 40)
        refused = {ended.get(timeout=60).code() for _ in range(24)}  # all but 16
        assert refused == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert check(port.address) == SERVING


def test_callers_who_send_no_request_are_cut_off(opened):
    with opened(0.5) as (port, _), channel_to(port.address, OWN) as channel:
        # By the timer, or because its process is too busy to answer a ping in time.
        cut_off = begin_silent(channel, 1).get(timeout=60).code()
        assert cut_off in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)

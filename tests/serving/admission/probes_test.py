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


@pytest.fixture
def open_channel():
    channels = []

    def open_channel(address):
        channels.append(channel_to(address))
        return channels[-1]

    yield open_channel
    for channel in channels:
        channel.close()


@pytest.fixture
def check(open_channel):
    """Checks a port as a probe does: over a new connection each time."""

    def check(address, service=""):
        request = health_pb2.HealthCheckRequest(service=service)
        return health_pb2_grpc.HealthStub(open_channel(address)).Check(request, timeout=30).status

    return check


def test_it_says_what_the_server_says_in_plain_text_where_the_server_wants_tls_and_a_token(
    serving, certificates, tmp_path, check, open_channel
):
    (tmp_path / "tokens").write_text("secret\n")
    tls = {
        "tls_certificate": certificates.server,
        "tls_key": certificates.key(certificates.server),
        "tls_client_ca": certificates.ca,
        "tokens": str(tmp_path / "tokens"),
    }
    with serving(probe_port=0, **tls) as server:
        address = server.probes.address
        assert [check(address, service) for service in ("", SERVICE, LIVENESS)] == [SERVING] * 3
        # and no other service is offered there
        watch = health_pb2_grpc.HealthStub(open_channel(address)).Watch
        triage = triage_service_pb2_grpc.TriageServiceStub(open_channel(address)).Triage
        for call, code in (
            (lambda: triage(triage_service_pb2.TriageRequest(), timeout=30), grpc.StatusCode.UNIMPLEMENTED),
            (lambda: next(watch(health_pb2.HealthCheckRequest(), timeout=30)), grpc.StatusCode.UNIMPLEMENTED),
            (lambda: check(address, "other"), grpc.StatusCode.NOT_FOUND),
        ):
            with pytest.raises(grpc.RpcError) as error:
                call()
            assert error.value.code() is code


def test_a_process_that_cannot_serve_is_alive(check, loop):
    servicer = health.HealthServicer()
    servicer.set("", NOT_SERVING)
    port = ProbePort(loop, "127.0.0.1", 0, servicer, 20.0)
    port.start()
    try:
        assert [check(port.address), check(port.address, LIVENESS)] == [NOT_SERVING, SERVING]
        servicer.set("", SERVING)
        servicer.enter_graceful_shutdown()
        assert [check(port.address), check(port.address, LIVENESS)] == [NOT_SERVING, SERVING]
    finally:
        port.stop()


def test_while_the_event_loop_is_blocked_nothing_is_serving(check, loop, monkeypatch):
    monkeypatch.setattr(probes, "BLOCKED_SECONDS", 0.5)
    servicer = health.HealthServicer()
    servicer.set("", SERVING)
    port = ProbePort(loop, "127.0.0.1", 0, servicer, 20.0)
    port.start()
    begun, goes_on = threading.Event(), threading.Event()

    def block():
        begun.set()
        goes_on.wait(60)

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
        port.stop()


@pytest.fixture
def silent_checks(loop):
    """Opens a probe port and begins checks that send no request, for the length of a `with` block."""

    @contextlib.contextmanager
    def begin(number, silence_seconds):
        servicer, ended = health.HealthServicer(), queue.SimpleQueue()
        servicer.set("", SERVING)
        port = ProbePort(loop, "127.0.0.1", 0, servicer, silence_seconds)
        port.start()
        with channel_to(port.address, ("grpc.use_local_subchannel_pool", 1)) as channel:
            checks = channel.stream_unary(f"/{health.SERVICE_NAME}/Check")
            for _ in range(number):
                checks.future(iter(queue.SimpleQueue().get, None)).add_done_callback(ended.put)
            yield port, ended
        port.stop()

    return begin


def test_callers_who_send_no_request_leave_room_for_others(check, silent_checks):
    with silent_checks(40, 600.0) as (port, ended):
        refused = {ended.get(timeout=60).code() for _ in range(24)}  # all but 16
        assert refused == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert check(port.address) == SERVING


def test_callers_who_send_no_request_are_cut_off(silent_checks):
    with silent_checks(1, 0.5) as (_, ended):
        # By the timer, or because its process is too busy to answer a ping in time.
        assert ended.get(timeout=60).code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)

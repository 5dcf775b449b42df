"""A port, from binding to release."""

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from schemas.errors import InputError
from serving.calls.event_loop import EventLoop, Workers
from serving.calls.front import Front, Limits
from serving.calls.listener import LIVENESS, Listener, ProbePort
from serving.config import ServeConfig
from serving.messages import state_message
from serving.server import SERVICE
from triage.v1 import triage_service_pb2, triage_service_pb2_grpc


@pytest.fixture
def loop():
    loop = EventLoop("under test")
    yield loop
    loop.close()


@pytest.fixture
def listen(loop):
    """Listens with a service whose one method echoes its request."""

    async def echo(request, context):
        return request

    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}

    def listen(port=0, host="127.0.0.1"):
        front = Front(Limits(places=8, silence_seconds=20.0), Workers(1))
        front.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", handlers),))
        return Listener(loop, front, (host, port), 20.0)

    return listen


def echo(listener, data):
    with grpc.insecure_channel(listener.address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        return channel.unary_unary("/test.Service/Echo")(data, timeout=30)


def test_it_answers_between_start_and_stop_and_releases_the_port(listen):
    listener = listen()
    listener.start()
    assert listener.address == f"127.0.0.1:{listener.port}"
    assert echo(listener, b"seven") == b"seven"
    listener.stop(0)
    again = listen(listener.port)
    again.start()
    assert echo(again, b"eight") == b"eight"
    again.stop(0)


def test_a_port_is_held_before_it_is_answered_on_and_released_without_that(listen):
    listener = listen()
    with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{listener.port}"):
        listen(listener.port)
    listener.stop(0)
    listen(listener.port).stop(0)


def test_an_address_of_version_6_is_written_in_brackets(listen):
    try:
        listener = listen(host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert listener.address == f"[::1]:{listener.port}"
    listener.stop(0)


SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def open_channel():
    channels = []

    def open_channel(address):
        channels.append(grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]))
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
        stub = triage_service_pb2_grpc.TriageServiceStub(open_channel(address))
        with pytest.raises(grpc.RpcError) as error:
            stub.Triage(triage_service_pb2.TriageRequest(state=state_message(["fever"])), timeout=30)
        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_an_unknown_service_is_not_found_and_nobody_may_watch(serving, check, open_channel):
    with serving(probe_port=0) as server:
        with pytest.raises(grpc.RpcError) as error:
            check(server.probes.address, "other")
        assert error.value.code() is grpc.StatusCode.NOT_FOUND
        watch = health_pb2_grpc.HealthStub(open_channel(server.probes.address)).Watch
        with pytest.raises(grpc.RpcError) as error:
            next(watch(health_pb2.HealthCheckRequest(), timeout=30))
        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


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


def test_without_the_setting_there_is_no_probe_port(serving):
    with serving() as server:
        assert server.probes is None


def test_a_port_that_is_taken_is_refused_with_the_option(serving, loop):
    with serving() as server, pytest.raises(InputError, match=r"--probe-port: cannot listen on 127\.0\.0\.1:\d+"):
        ProbePort(loop, "127.0.0.1", server.port, health.HealthServicer(), 20.0)


@pytest.mark.parametrize("port", [-2, 65536])
def test_a_number_that_is_not_a_port_is_refused(port):
    with pytest.raises(InputError, match=rf"--probe-port {port}: expected a number from 0 to 65535, or -1 for none"):
        ServeConfig(probe_port=port)

"""Which calls are admitted: as many as there are places, and none once the server ends; health is reported still."""

import asyncio
import contextlib
import queue
import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving.admission.admission import ConcurrencyLimit, Drain
from serving.config.settings import ServeConfig
from serving.errors import ExhaustedError, UnavailableError
from serving.messages import state_message
from serving.server.triage_server import TriageServer
from tests.builders import channel_to
from triage.v1 import triage_service_pb2, triage_service_pb2_grpc

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@contextlib.contextmanager
def full_server(gated):
    """A server of one place for calls and one for interviews, and none to wait, both of them taken."""
    server = TriageServer(ServeConfig(port=0, grace_seconds=30, max_workers=1, max_interviews=1, max_waiting=0))
    server.start(gated.watcher())
    ended = queue.SimpleQueue()
    with channel_to(server.address) as channel:
        stub = triage_service_pb2_grpc.TriageServiceStub(channel)
        request = triage_service_pb2.TriageRequest(state=state_message(["fever"]))
        for _ in range(3):
            stub.Triage.future(request, timeout=60).add_done_callback(ended.put)
        try:
            yield server, channel, ended.get(timeout=30)
        finally:
            gated.gate.set()
            assert {ended.get(timeout=30).code() for _ in range(2)} == {grpc.StatusCode.OK}
            server.stop()


def test_a_full_server_reports_health_and_draining(gated):
    with full_server(gated) as (server, channel, _):
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "triage.v1.TriageService"):
            assert stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=30).status == SERVING
        changes = stub.Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert next(changes).status == SERVING
        stop = threading.Thread(target=server.stop)
        stop.start()
        assert next(changes).status == NOT_SERVING
        changes.cancel()
    stop.join()


def test_a_quarter_more_is_kept_for_callers_who_have_no_place():
    places = ConcurrencyLimit(4)
    for _ in range(4):
        places.take("greedy")
    with pytest.raises(ExhaustedError):
        places.take("greedy")
    places.take("modest")
    with pytest.raises(ExhaustedError):
        places.take("another")
    places.leave("modest")
    places.take("another")


def test_calls_are_held_back_until_none_arrive_and_then_refused():
    async def scenario():
        drain = Drain()
        beginning = asyncio.create_task(drain.begin())
        await asyncio.sleep(0)
        assert drain.begun
        held = asyncio.create_task(drain.hold_back())
        await beginning
        assert not held.done()
        drain.refuse()
        with pytest.raises(UnavailableError, match="the server is shutting down: call another one, or this one later"):
            await held
        with pytest.raises(UnavailableError):
            await drain.hold_back()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_callers_who_never_stop_do_not_keep_the_server_from_ending():
    async def scenario():
        drain = Drain()
        beginning, held = asyncio.create_task(drain.begin()), []
        while not beginning.done():
            held.append(asyncio.create_task(drain.hold_back()))
            await asyncio.sleep(0.01)  # the test would time out if `begin` waited for the last of them
        drain.refuse()
        for call in held:
            with pytest.raises(UnavailableError):
                await call

    asyncio.run(asyncio.wait_for(scenario(), 30))

"""Health checks and watches."""

import asyncio
import tracemalloc

import grpc
import pytest
from grpc_health.v1 import health, health_pb2

from schemas.errors import InputError
from serving.admission import health_service
from serving.admission.health_service import HealthService
from serving.errors import ExhaustedError

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class Context:
    code = grpc.StatusCode.OK

    def __init__(self, host="10.0.0.1"):
        self.host = host

    def peer(self):
        return f"ipv4:{self.host}:1234"

    def set_code(self, code):
        self.code = code


@pytest.fixture
def servicer():
    return health.HealthServicer()


def watch(service, name="", host="10.0.0.1"):
    return service.Watch(health_pb2.HealthCheckRequest(service=name), Context(host))


def test_watchers_get_changes_from_any_thread_even_after_one_of_them_leaves(servicer):
    service = HealthService(servicer)

    async def watch_all():
        leaves, stays, other = watch(service), watch(service), watch(service, "other")
        first = [(await anext_of(watcher)).status for watcher in (leaves, stays, other)]
        await leaves.aclose()
        await asyncio.to_thread(servicer.set, "", NOT_SERVING)
        second = (await anext_of(stays)).status
        for watcher in (stays, other):
            await watcher.aclose()
        return first, second

    first, second = asyncio.run(watch_all())
    assert first == [SERVING, SERVING, SERVICE_UNKNOWN]
    assert second == NOT_SERVING
    servicer.set("", SERVING)  # and no watcher is left on a closed loop


def test_watches_beyond_the_limit_are_refused_but_to_callers_who_have_none(servicer, monkeypatch):
    monkeypatch.setattr(health_service, "MOST_WATCHES", 4)
    service = HealthService(servicer)

    async def watch_all():
        watchers = [watch(service) for _ in range(4)]
        for watcher in watchers:
            assert (await anext_of(watcher)).status == SERVING
        with pytest.raises(ExhaustedError, match="4 calls"):
            await anext_of(watch(service))
        other = watch(service, host="10.0.0.2")
        assert (await anext_of(other)).status == SERVING
        for watcher in (other, *watchers):
            await watcher.aclose()
        again = watch(service)
        assert (await anext_of(again)).status == SERVING
        await again.aclose()

    asyncio.run(watch_all())


def test_names_of_services_that_are_not_served_take_no_memory(servicer):
    """Each of these watches ends before the next one begins; a name of its own stays for as long as the server."""
    service = HealthService(servicer)

    async def watch_many():
        with pytest.raises(InputError, match="256 bytes"):
            await anext_of(watch(service, "a" * 1_000_000))
        tracemalloc.start()
        for number in range(2000):
            watcher = watch(service, f"{number:0200}")
            assert (await anext_of(watcher)).status == SERVICE_UNKNOWN
            await watcher.aclose()
        return tracemalloc.get_traced_memory()[0]

    try:
        assert asyncio.run(watch_many()) < 2000 * 200 / 2
    finally:
        tracemalloc.stop()


def anext_of(watcher):
    return asyncio.wait_for(watcher.__anext__(), 30)

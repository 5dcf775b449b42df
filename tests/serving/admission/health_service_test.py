"""Health checks and watches."""

import asyncio

import grpc
import pytest
from grpc_health.v1 import health, health_pb2

from serving.admission.health_service import HealthService

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class Context:
    code = grpc.StatusCode.OK

    def set_code(self, code):
        self.code = code


@pytest.fixture
def servicer():
    return health.HealthServicer()


def test_a_check_returns_the_status_or_not_found(servicer):
    service, context = HealthService(servicer), Context()
    answer = asyncio.run(service.Check(health_pb2.HealthCheckRequest(), context))
    assert (answer.status, context.code) == (SERVING, grpc.StatusCode.OK)
    asyncio.run(service.Check(health_pb2.HealthCheckRequest(service="other"), context))
    assert context.code is grpc.StatusCode.NOT_FOUND


def test_watchers_get_changes_from_any_thread_even_after_one_of_them_leaves(servicer):
    service = HealthService(servicer)

    def watch(name=""):
        return service.Watch(health_pb2.HealthCheckRequest(service=name), None)

    async def watch_all():
        leaves, stays, other = watch(), watch(), watch("other")
        first = [(await anext_of(watcher)).status for watcher in (leaves, stays, other)]
        await leaves.aclose()
        await asyncio.to_thread(servicer.set, "", NOT_SERVING)
        await asyncio.to_thread(servicer.set, "other", SERVING)
        second = [(await anext_of(watcher)).status for watcher in (stays, other)]
        for watcher in (stays, other):
            await watcher.aclose()
        return first, second

    first, second = asyncio.run(watch_all())
    assert first == [SERVING, SERVING, SERVICE_UNKNOWN]
    assert second == [NOT_SERVING, SERVING]
    servicer.set("", SERVING)  # and no watcher is left on a closed loop


def anext_of(watcher):
    return asyncio.wait_for(watcher.__anext__(), 30)

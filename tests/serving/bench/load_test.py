"""The client of `triage bench serve` against servers whose answers are known."""

import asyncio
import itertools
import threading

import grpc
import pytest

from serving.bench.load import HTTP, Job, measure
from serving.bench.peers import start


@pytest.fixture
def serve():
    """Starts a server whose Triage is a function of bytes and context, and returns its address."""
    servers = []

    def begin(behavior):
        server, port = start({"Triage": grpc.unary_unary_rpc_method_handler(behavior)})
        servers.append(server)
        return f"127.0.0.1:{port}"

    yield begin
    for server in servers:
        server.stop(0).wait()


def test_the_number_of_concurrent_calls_is_that_of_the_job(serve):
    lock, under_way, most, seen = threading.Lock(), [0], [0], set()

    def count(request, context):
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
            seen.add(request)
        barrier_passed.wait(0.005)
        with lock:
            under_way[0] -= 1
        return b""

    barrier_passed = threading.Event()
    measured = asyncio.run(measure(Job(serve(count), 0.3, 3), [b"a", b"b"]))
    assert most[0] == 3
    assert seen == {b"a", b"b"}
    assert measured.failed == 0
    assert measured.calls_per_second > 0
    assert 0.005 <= measured.p50 <= measured.p99


def test_calls_begin_at_the_rate_of_the_job_however_slow_the_answers_are(serve):
    begun = []
    gate = threading.Event()

    def stand_still(request, context):
        begun.append(request)
        if len(begun) == 8:  # of ten threads: a client that waits for answers would never get so far
            gate.set()
        assert gate.wait(30)
        return b""

    measured = asyncio.run(measure(Job(serve(stand_still), 1.0, 0, rate=100.0, seed=1), [b""]))
    assert gate.is_set()
    assert measured.failed == 0
    assert 60 <= measured.calls_per_second <= 140  # 100 at random moments, give or take four standard deviations


def test_http_requests_are_sent_over_connections_that_stay_open():
    """A server that speaks as much HTTP as the client needs, and refuses every second request."""
    connections, bodies = [], set()

    async def answer(reader, writer):
        connections.append(writer)
        for number in itertools.count():
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            bodies.add(await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])))
            status = b"200 OK" if number % 2 else b"429 No"
            writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 3\r\n\r\nabc")

    async def run():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await measure(Job(f"127.0.0.1:{port}", 0.3, 3, protocol=HTTP), [b"{}", b"{} "])

    measured = asyncio.run(run())
    assert (len(connections), bodies) == (3, {b"{}", b"{} "})
    assert measured.failed > 0
    assert measured.calls_per_second > 0


def test_failed_calls_are_counted_apart(serve):
    def refuse(request, context):
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no")

    measured = asyncio.run(measure(Job(serve(refuse), 0.2, 1), [b""]))
    assert measured.failed > 0
    assert (measured.calls_per_second, measured.p50, measured.p99) == (0.0, 0.0, 0.0)

"""The load generator of `triage bench serve`: a process that calls a server over many connections at once.

    python -m serving.bench.load < jobs > results

Jobs and results are JSON, one per line. The first line has the requests of each protocol in base 64, and each other
line a `Job`.
"""

import asyncio
import base64
import contextlib
import dataclasses
import itertools
import json
import random
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import grpc
import numpy as np

from serving.bench.peers import SERVICE

WARM_UP_SECONDS = 0.3
_METHOD = f"/{SERVICE}/Triage"
_DEADLINE_SECONDS = 30.0
_CONNECTIONS = 8  # of gRPC; HTTP has one for each concurrent call
_HEAD = "POST /v1/triage HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
GRPC, HTTP = "grpc", "http"
"""The protocols of a job."""

Send = Callable[[int, bytes], Awaitable[object]]
"""Sends a request, given its number and its bytes; returns when it is answered, raises if it is not."""


@dataclasses.dataclass(frozen=True)
class Job:
    """One measurement.

    Attributes:
        address: the server.
        seconds: duration of the measurement, after a warm-up.
        concurrent: number of concurrent calls; each begins when the one before it ends.
        rate: if above 0, calls per second instead, which begin at random times whether or not others have ended.
        seed: seed of the random times.
        protocol: GRPC or HTTP.
    """

    address: str
    seconds: float
    concurrent: int
    rate: float = 0.0
    seed: int = 0
    protocol: str = GRPC


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The result of one job; durations in seconds, from the time at which a call was due to begin."""

    calls_per_second: float
    p50: float
    p99: float
    failed: int


class _FailedError(Exception):
    """A request was answered with another HTTP status than 200."""


@contextlib.asynccontextmanager
async def _over_grpc(job: Job) -> AsyncIterator[Send]:
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
    channels = [grpc.aio.insecure_channel(job.address, options=options) for _ in range(_CONNECTIONS)]
    calls = [channel.unary_unary(_METHOD) for channel in channels]

    async def send(number: int, request: bytes) -> None:
        await calls[number % len(calls)](request, timeout=_DEADLINE_SECONDS)

    yield send
    for channel in channels:
        await channel.close()


@contextlib.asynccontextmanager
async def _over_http(job: Job) -> AsyncIterator[Send]:
    host, _, port = job.address.rpartition(":")
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(number: int, body: bytes) -> None:
        reader, writer = idle.pop() if idle else await asyncio.open_connection(host, int(port))
        writer.write(_HEAD.format(job.address, len(body)).encode() + body)
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        await reader.readexactly(int(length[1]) if length else 0)
        idle.append((reader, writer))
        if not head.startswith(b"HTTP/1.1 200"):
            raise _FailedError

    yield send
    for _, writer in idle:
        writer.close()


async def measure(job: Job, requests: Sequence[bytes]) -> Measurement:
    """Calls `Triage`, or posts to `/v1/triage`, with the requests in turn, and measures it."""
    async with (_over_http if job.protocol == HTTP else _over_grpc)(job) as send:
        return await _measure(job, requests, send)


async def _measure(job: Job, requests: Sequence[bytes], send: Send) -> Measurement:
    begin = time.perf_counter() + WARM_UP_SECONDS
    end = begin + job.seconds
    durations: list[float] = []
    failed = 0

    async def call(number: int, planned: float) -> None:
        nonlocal failed
        try:
            await send(number, requests[number % len(requests)])
        except (grpc.RpcError, _FailedError, OSError, asyncio.IncompleteReadError):
            failed += 1
            return
        if planned >= begin:
            durations.append(time.perf_counter() - planned)

    async def in_turn(first: int) -> None:
        for number in itertools.count(first, job.concurrent):
            planned = time.perf_counter()
            if planned >= end:
                return
            await call(number, planned)

    async def at_rate() -> None:
        chance = random.Random(job.seed)  # noqa: S311 (no secret)
        planned = time.perf_counter()
        tasks = []
        for number in itertools.count():
            planned += chance.expovariate(job.rate)
            if planned >= end:
                break
            await asyncio.sleep(max(0.0, planned - time.perf_counter()))
            tasks.append(asyncio.create_task(call(number, planned)))
        await asyncio.gather(*tasks)

    if job.rate:
        await at_rate()
    else:
        await asyncio.gather(*(in_turn(first) for first in range(job.concurrent)))
    p50, p99 = (float(np.percentile(durations, percent)) if durations else 0.0 for percent in (50, 99))
    return Measurement(len(durations) / job.seconds, p50, p99, failed)


def main() -> None:
    """Runs jobs until the end of standard input."""
    requests = {
        protocol: [base64.b64decode(request) for request in encoded]
        for protocol, encoded in json.loads(sys.stdin.readline()).items()
    }
    for line in sys.stdin:
        job = Job(**json.loads(line))
        result = asyncio.run(measure(job, requests[job.protocol]))
        sys.stdout.write(json.dumps(dataclasses.asdict(result)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

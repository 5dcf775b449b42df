"""The load generator of `triage bench serve`: a process that calls a server over many connections at once.

    python -m serving.bench.load < jobs > results

Jobs and results are JSON, one per line. The first line has the serialized requests in base 64, and each other line a
`Job`.
"""

import asyncio
import base64
import dataclasses
import itertools
import json
import random
import sys
import time
from collections.abc import Sequence

import grpc
import numpy as np

from serving.bench.peers import SERVICE

WARM_UP_SECONDS = 0.3
_METHOD = f"/{SERVICE}/Triage"
_DEADLINE_SECONDS = 30.0


@dataclasses.dataclass(frozen=True)
class Job:
    """One measurement.

    Attributes:
        address: the server.
        seconds: duration of the measurement, after a warm-up.
        concurrent: number of concurrent calls; each begins when the one before it ends.
        rate: if above 0, calls per second instead, which begin at random times whether or not others have ended.
        connections: number of connections.
        seed: seed of the random times.
    """

    address: str
    seconds: float
    concurrent: int
    rate: float = 0.0
    connections: int = 8
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The result of one job; durations in seconds, from the time at which a call was due to begin."""

    calls_per_second: float
    p50: float
    p99: float
    failed: int


async def measure(job: Job, requests: Sequence[bytes]) -> Measurement:
    """Calls `Triage` with the requests in turn, and measures it."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
    channels = [grpc.aio.insecure_channel(job.address, options=options) for _ in range(job.connections)]
    calls = [channel.unary_unary(_METHOD) for channel in channels]
    begin = time.perf_counter() + WARM_UP_SECONDS
    end = begin + job.seconds
    durations: list[float] = []
    failed = 0

    async def call(number: int, planned: float) -> None:
        nonlocal failed
        try:
            await calls[number % len(calls)](requests[number % len(requests)], timeout=_DEADLINE_SECONDS)
        except grpc.RpcError:
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
    for channel in channels:
        await channel.close()
    p50, p99 = (float(np.percentile(durations, percent)) if durations else 0.0 for percent in (50, 99))
    return Measurement(len(durations) / job.seconds, p50, p99, failed)


def main() -> None:
    """Runs jobs until the end of standard input."""
    requests = [base64.b64decode(request) for request in json.loads(sys.stdin.readline())]
    for line in sys.stdin:
        result = asyncio.run(measure(Job(**json.loads(line)), requests))
        sys.stdout.write(json.dumps(dataclasses.asdict(result)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

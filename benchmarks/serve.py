"""Calls a second and latency of the server beside an empty gRPC handler, in rounds: with three questions, and without.

    python benchmarks/serve.py --model-base-path models --rounds 5 --seconds 2

The server, the empty handler, which takes and returns as many bytes, and this client are processes of their own. The
server and its peer are called in turns, so that other work on the machine affects all alike: compare the ratios.
`make results` makes tables of the record.
"""

import argparse
import asyncio
import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import grpc
import numpy as np

from benchmarks import records
from schemas.evidence import Vocabulary
from schemas.model_directory import find_version, read_version
from serving.messages import state_message
from triage.v1 import triage_service_pb2

SERVICE = "triage.v1.TriageService"
METHOD = f"/{SERVICE}/Triage"
LEVELS = (64, 16, 1)  # numbers of concurrent calls
WITH_QUESTIONS, PLAIN, EMPTY = "server, 3 questions", "server, no questions", "empty handler"
EVIDENCE, REQUESTS, CONNECTIONS = 10, 256, 8
WARM_UP_SECONDS = 0.3
TIMEOUT_SECONDS = 120.0
DIRECT = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-base-path", type=pathlib.Path, required=True, help="directory of the model's versions")
    parser.add_argument("--rounds", type=int, default=5, help="whose median counts (default 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measurement (default 1)")
    records.add_argument(parser)
    arguments = parser.parse_args()
    _, vocabulary = read_version(find_version(arguments.model_base_path))
    plain, asking = (requests_of(vocabulary, questions) for questions in (0, 3))
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(triage_server(arguments.model_base_path))
        with grpc.insecure_channel(server, DIRECT) as channel:
            size = len(channel.unary_unary(METHOD)(plain[0], timeout=TIMEOUT_SECONDS, wait_for_ready=True))
        empty = stack.enter_context(empty_server(size))
        callees = [(WITH_QUESTIONS, server, asking), (PLAIN, server, plain), (EMPTY, empty, plain)]
        rounds: list[dict[tuple[str, int], dict[str, float]]] = [{} for _ in range(arguments.rounds)]
        for number, level in itertools.product(range(arguments.rounds), LEVELS):
            for name, address, requests in callees[number % 3 :] + callees[: number % 3]:
                measured = asyncio.run(measure(address, requests, level, arguments.seconds))
                rounds[number][name, level] = measured
    found = {name: medians(rounds, callee) for name, callee in (("questions", WITH_QUESTIONS), ("decisions", PLAIN))}
    for name, rows in found.items():
        print(name, *rows, sep="\n")
    records.write(arguments.results, "serve", found | {"rounds": arguments.rounds, "connections": CONNECTIONS})


def requests_of(vocabulary: Vocabulary, questions: int) -> list[bytes]:
    """Returns TriageRequests with random evidence, every second piece absent, and without contradictions."""
    generator = random.Random(0)  # noqa: S311 (no secret)
    requests = []
    for _ in range(REQUESTS):
        codes = generator.sample(vocabulary.codes, min(EVIDENCE, len(vocabulary)))
        absent = codes[1::2]
        refused = {each.code for each in vocabulary.relations.contradictions(codes[::2], frozenset(absent))}
        state = state_message([code for code in codes[::2] if code not in refused], absent, generator.randrange(5))
        requests.append(triage_service_pb2.TriageRequest(state=state, questions=questions).SerializeToString())
    return requests


async def measure(address: str, requests: Sequence[bytes], concurrent: int, seconds: float) -> dict[str, float]:
    """Calls with the requests in turn after a warm-up; each caller begins a call when its last one ends."""
    begin = time.perf_counter() + WARM_UP_SECONDS
    durations, failed = [], 0

    async def calls(first: int, call: Any) -> None:
        nonlocal failed
        for number in itertools.count(first, concurrent):
            began = time.perf_counter()
            if began >= begin + seconds:
                return
            try:
                await call(requests[number % len(requests)], timeout=TIMEOUT_SECONDS)
            except grpc.RpcError:
                failed += 1
                continue
            if began >= begin:
                durations.append(time.perf_counter() - began)

    async with contextlib.AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(grpc.aio.insecure_channel(address, DIRECT))
                    for _ in range(min(concurrent, CONNECTIONS))]  # fmt: skip
        called = [channel.unary_unary(METHOD) for channel in channels]
        await asyncio.gather(*(calls(first, called[first % len(called)]) for first in range(concurrent)))
    p50, p99 = 1e3 * np.percentile(durations or [float("nan")], [50, 99])
    return {"calls_per_second": len(durations) / seconds, "p50_ms": float(p50), "p99_ms": float(p99), "failed": failed}


def medians(rounds: Sequence[Mapping[tuple[str, int], Any]], callee: str) -> list[dict[str, float]]:
    """Returns medians over the rounds by level; the share of the empty handler's calls is taken within a round."""
    rows = []
    for level in sorted({level for _, level in rounds[0]}):
        measured = [each[callee, level] for each in rounds]
        shares = [each[callee, level]["calls_per_second"] / each[EMPTY, level]["calls_per_second"] for each in rounds]
        middle = {key: statistics.median(each[key] for each in measured) for key in measured[0] if key != "failed"}
        failed = sum(each["failed"] for each in measured)
        rows.append({"in_progress": level, **middle, "of_empty": statistics.median(shares), "failed": failed})
    return rows


@contextlib.contextmanager
def triage_server(base: pathlib.Path) -> Iterator[str]:
    """Yields the address of `triage serve`."""
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "triage_cli", "serve", "--model-base-path", str(base), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        try:
            if not (line := process.stdout.readline() if process.stdout else ""):
                raise SystemExit("triage serve did not start: see its message above")
            yield line.split()[2].rstrip(",")
        finally:
            process.terminate()


@contextlib.contextmanager
def empty_server(response_bytes: int) -> Iterator[str]:
    """Yields the address of a server whose handler returns constant bytes, which measures gRPC alone."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve_nothing, args=(theirs, response_bytes), daemon=True)
    process.start()
    theirs.close()
    with ours:
        yield f"127.0.0.1:{ours.recv()}"
    process.join()


def serve_nothing(pipe: multiprocessing.connection.Connection, response_bytes: int) -> None:
    """Sends its port, and answers until the pipe is closed."""
    response = bytes(response_bytes)
    server = grpc.server(futures.ThreadPoolExecutor(10), options=[("grpc.so_reuseport", 0)])
    handlers = {"Triage": grpc.unary_unary_rpc_method_handler(lambda request, context: response)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    pipe.send(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    with contextlib.suppress(EOFError):
        pipe.recv()
    server.stop(0).wait()


if __name__ == "__main__":
    main()

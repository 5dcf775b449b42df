"""Shows whether the memory of a server stays constant under a load of all kinds of calls.

    python benchmarks/soak.py --model-base-path MODELS --seconds 600 --json FILE

It starts `triage serve` on a copy of the highest version, and calls it continuously: single states, batches,
interviews, malformed and refused requests, cancelled calls, connections that are opened and closed. Every
`--swap-seconds` a new version is published, which replaces the old one once it is loaded. The resident memory is
recorded every second. After a quarter of the time, which fills memory and caches, a line is fitted; its slope is the
growth. While versions change, two are loaded, so another line is fitted to the least value of every 20 seconds.
"""

import argparse
import collections
import contextlib
import itertools
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
from rich.console import Console

from schemas.evidence import Vocabulary
from schemas.model_directory import find_version
from triage_client import TriageClient, TriageError, evidence_state
from triage_client.v1 import triage_service_pb2
from triage_runtime.command_line import json_output

ROOT = pathlib.Path(__file__).resolve().parents[1]
WANTED = {"INVALID_ARGUMENT": "refused", "CANCELLED": "cancelled"}
DEADLINE_SECONDS = 60.0
WINDOW_SECONDS = 20.0
METHOD = "/triage.v1.TriageService/Triage"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-base-path", type=pathlib.Path, required=True, help="folder of versions")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to call (default 600)")
    parser.add_argument("--swap-seconds", type=float, default=10.0, help="time between two versions (default 10)")
    parser.add_argument("--callers", type=int, default=4, help="callers at a time (default 4)")
    json_output.add_argument(parser)
    arguments = parser.parse_args()
    json_output.check(arguments.json)
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(find_version(arguments.model_base_path), pathlib.Path(folder) / "models")
        with soak.server() as process:
            noted = soak.run(process, arguments.seconds, arguments.callers, arguments.swap_seconds)
    summary = {**growth(noted), "versions": len(soak.answered_by), "calls": dict(soak.ended)}
    Console(stderr=True).print(summary)
    json_output.write({**summary, "noted": noted}, arguments.json)


class Soak:
    """A server, its callers, and the thread that publishes versions for it.

    Args:
        version: folder of the version to serve.
        base: model base path of the server; it is created.
    """

    def __init__(self, version: pathlib.Path, base: pathlib.Path):
        self.answered_by: set[int] = set()
        self.ended: collections.Counter[str] = collections.Counter()
        self._newest = 1
        self._version, self._base = version, base
        self._stop = threading.Event()
        self._codes = [entry.code for entry in Vocabulary.load(version / "assets" / "vocabulary.csv")]
        base.mkdir()
        self._publish()

    @contextlib.contextmanager
    def server(self) -> Iterator[subprocess.Popen[str]]:
        """Runs `triage serve`."""
        command = [sys.executable, str(ROOT / "triage_cli.py"), "serve", "--model-base-path", str(self._base)]
        command += ["--port", "0", "--poll-seconds", "0.5", "--metrics-port", "0"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "proto")])}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            line = process.stdout.readline() if process.stdout else ""
            self.address = line.split()[2].rstrip(",")
            threading.Thread(
                target=process.communicate, daemon=True
            ).start()  # otherwise a full pipe would block its log
            yield process
        finally:
            process.kill()
            process.wait()

    def run(
        self, process: "subprocess.Popen[str]", seconds: float, callers: int, swap_seconds: float
    ) -> list[tuple[float, int]]:
        """Calls for so many seconds; returns times in seconds and the resident bytes of the server then."""
        threads = [threading.Thread(target=self._call) for _ in range(callers)]
        threads.append(threading.Thread(target=self._swap, args=(swap_seconds,)))
        for thread in threads:
            thread.start()
        noted, start = [], time.monotonic()
        while (now := time.monotonic() - start) < seconds:
            noted.append((now, _resident_bytes(process.pid)))
            time.sleep(1.0)
        self._stop.set()
        for thread in threads:
            thread.join()
        return noted

    def _swap(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            self._newest += 1
            self._publish()
            answering = max(self.answered_by, default=1)
            for folder in self._base.iterdir():
                if int(folder.name) < answering:  # not one that may still be loaded
                    shutil.rmtree(folder, ignore_errors=True)

    def _publish(self) -> None:
        partial = self._base.with_name("partial")
        shutil.copytree(self._version, partial)
        partial.rename(self._base / str(self._newest))

    def _call(self) -> None:
        while not self._stop.is_set():
            with (
                TriageClient(self.address, timeout_seconds=DEADLINE_SECONDS) as client,
                _channel(self.address) as channel,
            ):
                for number in range(200):
                    if not self._stop.is_set():
                        self._one(client, channel, number)

    def _one(self, client: TriageClient, channel: grpc.Channel, number: int) -> None:
        codes = [self._codes[(number * 7 + place) % len(self._codes)] for place in range(1 + number % 5)]
        state = evidence_state(codes[:1], sorted(set(codes[1:]) - {codes[0]}))
        kind = ("triage", "triage", "triage", "batch", "interview", "refused", "cancelled", "malformed")[number % 8]
        try:
            if kind == "triage":
                self.answered_by.add(int(client.triage(state).model_version))
            elif kind == "batch":
                client.batch_triage([state] * (1 + number % 30))
            elif kind == "interview":
                with client.interview(timeout_seconds=DEADLINE_SECONDS) as interview:
                    interview.present(codes[0])
            elif kind == "refused":
                client.triage(evidence_state([f"no_such_code_{number}"]))
            elif kind == "malformed":
                channel.unary_unary(METHOD)(b"\x0a\xff", timeout=DEADLINE_SECONDS)
            else:
                request = triage_service_pb2.TriageRequest(state=state).SerializeToString()
                call = channel.unary_unary(METHOD).future(request, timeout=DEADLINE_SECONDS)
                call.cancel()
                call.result()
            self.ended["answered"] += 1
        except grpc.FutureCancelledError:
            self.ended["cancelled"] += 1
        except (TriageError, grpc.RpcError) as error:
            code = (error.status if isinstance(error, TriageError) else error.code()).name
            self.ended[WANTED.get(code, code)] += 1


def _channel(address: str) -> grpc.Channel:
    options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
    return grpc.insecure_channel(address, options=options)


def growth(noted: list[tuple[float, int]]) -> dict[str, Any]:
    """Returns the growth of the memory over the last three quarters of the time, and its values at their ends."""
    settled = np.array([row for row in noted if row[0] >= noted[-1][0] / 4], np.float64)
    windows = itertools.groupby(settled, key=lambda row: row[0] // WINDOW_SECONDS)
    least = np.array([min(rows, key=lambda row: row[1]) for _, rows in windows])
    return {
        "seconds": noted[-1][0],
        "megabytes_per_minute": _slope(settled) * 60 / 1e6,
        "least_megabytes_per_minute": _slope(least) * 60 / 1e6,
        "settled_megabytes": float(settled[0, 1] / 1e6),
        "final_megabytes": float(settled[-1, 1] / 1e6),
    }


def _slope(rows: np.ndarray) -> float:
    return float(np.polyfit(rows[:, 0], rows[:, 1], 1)[0])


def _resident_bytes(process: int) -> int:
    return int(pathlib.Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()

"""`triage bench serve`: the server's speed beside an empty handler and a straightforward server.

Each of the three is a process, and another process calls them in turns over several rounds, so that other work on the
machine affects all of them alike: compare the ratios.
"""

import argparse
import base64
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import IO, cast

import grpc

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.features import MOST_QUESTIONS
from schemas.model_directory import find_version, read_version
from serving.bench import figures
from serving.bench.load import GRPC, HTTP, WARM_UP_SECONDS, Job, Measurement
from serving.bench.peers import MODEL_SECONDS, SERVICE
from serving.messages import codes_of, state_message
from triage.v1 import triage_service_pb2
from triage_runtime.command_line import json_output

EVIDENCE = 10
"""The most pieces of evidence in a state."""
_REQUESTS = 256
_START_SECONDS = 120.0


@dataclasses.dataclass(frozen=True)
class Server:
    """A server to measure."""

    name: str
    address: str
    process: int
    protocol: str = GRPC


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage bench serve`."""
    parser.add_argument("--model-base-path", type=pathlib.Path, required=True, help="directory of the model's versions")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds, whose median counts; default: 5")
    parser.add_argument("--seconds", type=float, default=1.0, help="duration of one measurement; default: 1")
    parser.add_argument(
        "--serve-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="an option for the measured triage serve, such as --serve-option=--no-litert",
    )
    parser.add_argument("--http", action="store_true", help="measure the same server over HTTP (/v1/triage) too")
    parser.add_argument("--questions", type=int, default=0, help="questions to suggest in each answer; default: 0")
    json_output.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measures and reports; returns 0 even if a goal is missed.

    Raises:
        InputError: an option is out of its range, there is no model, or a server does not start.
    """
    json_output.check(arguments.json)
    if arguments.rounds < 1:
        raise InputError(f"--rounds {arguments.rounds}: expected a whole number from 1")
    if not 0 <= arguments.questions <= MOST_QUESTIONS:
        raise InputError(f"--questions {arguments.questions}: expected 0 to {MOST_QUESTIONS}")
    if not 0 < arguments.seconds < float("inf"):
        raise InputError(f"--seconds {arguments.seconds}: expected a number of seconds above 0")
    folder = find_version(arguments.model_base_path)
    _, vocabulary = read_version(folder)
    requests = make_requests(vocabulary, arguments.questions)
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(triage_server(arguments.model_base_path, arguments.serve_option, arguments.http))
        triage = ours[0]
        plain = stack.enter_context(_peer("plain", ["--version-folder", os.fspath(folder)]))
        _call(plain.address, "Triage", requests[0])  # its first call initialises the graph
        response_bytes = len(_call(triage.address, "Triage", requests[0]))
        empty = stack.enter_context(_peer("empty", ["--response-bytes", str(response_bytes)]))
        load = stack.enter_context(_load(requests))
        rounds = []
        for number in range(arguments.rounds):
            sys.stderr.write(f"round {number + 1} of {arguments.rounds}\n")
            rounds.append(_round(number, (*ours, empty, plain), load, arguments.seconds))
    report = {
        "machine": {"cores": os.cpu_count(), "requests_bytes": len(requests[0]), "response_bytes": response_bytes},
        **figures.figures(rounds),
    }
    if arguments.json != "-":
        sys.stdout.write(figures.table(report) + "\n")
    json_output.write(report, arguments.json)
    return 0


def make_requests(vocabulary: Vocabulary, questions: int = 0) -> list[bytes]:
    """Returns serialized TriageRequests with random evidence, half of it present, and without contradictions.

    Args:
        vocabulary: of the model.
        questions: that each asks for.
    """
    generator = random.Random(0)  # noqa: S311 (not secret)
    count = min(EVIDENCE, len(vocabulary))
    requests = []
    for _ in range(_REQUESTS):
        codes = generator.sample(vocabulary.codes, count)
        absent = codes[1::2]
        refused = {each.code for each in vocabulary.relations.contradictions(codes[::2], frozenset(absent))}
        present = [code for code in codes[::2] if code not in refused]
        state = state_message(present, absent, questions_asked=generator.randrange(5))
        requests.append(triage_service_pb2.TriageRequest(state=state, questions=questions).SerializeToString())
    return requests


def http_body(request: bytes) -> bytes:
    """Returns the body for `/v1/triage` that asks what a serialized TriageRequest asks."""
    asked = triage_service_pb2.TriageRequest.FromString(request)
    present, absent = codes_of(asked.state)
    fields = {"questions_asked": asked.state.questions_asked, "questions": asked.questions}
    return json.dumps({"present": present, "absent": absent, **fields}).encode()


class _Load:
    """The process that calls the servers."""

    def __init__(self, process: "subprocess.Popen[str]", requests: Sequence[bytes]):
        self._jobs, self._results = cast(IO[str], process.stdin), cast(IO[str], process.stdout)
        of_protocol = {GRPC: requests, HTTP: [http_body(request) for request in requests]}
        self._send(
            {protocol: [base64.b64encode(each).decode() for each in bodies] for protocol, bodies in of_protocol.items()}
        )
        self.request = requests[0]

    def measure(self, job: Job) -> Measurement:
        """Runs one job and returns its result."""
        self._send(dataclasses.asdict(job))
        line = self._results.readline()
        if not line:
            raise InputError("the load generator ended; see its message above")
        return Measurement(**json.loads(line))

    def _send(self, value: object) -> None:
        self._jobs.write(json.dumps(value) + "\n")
        self._jobs.flush()


def _round(number: int, servers: Sequence[Server], load: _Load, seconds: float) -> figures.Round:
    turns = [*servers[number % len(servers) :], *servers[: number % len(servers)]]
    measured: dict[tuple[str, int | str], Measurement] = {}
    processor: dict[tuple[str, int | str], float] = {}
    levels: tuple[int | str, ...] = (*figures.LEVELS, figures.HALF_LOAD)
    for level in levels:
        for server in turns:
            if isinstance(level, int):
                job = Job(server.address, seconds, level, protocol=server.protocol)
            else:
                most = measured[server.name, figures.LEVELS[-1]].calls_per_second
                rate = max(1.0, most / 2)
                job = Job(server.address, seconds, 0, rate, seed=number, protocol=server.protocol)
            before = _processor_seconds(server.process)
            measurement = measured[server.name, level] = load.measure(job)
            used = _processor_seconds(server.process) - before
            calls = measurement.calls_per_second * (seconds + WARM_UP_SECONDS)
            processor[server.name, level] = used / max(1.0, calls)
    plain = next(server for server in servers if server.name == "plain")
    return figures.Round(measured, processor, json.loads(_call(plain.address, MODEL_SECONDS, load.request)))


def _processor_seconds(process: int) -> float:
    """Returns the processor time so far of a process and of those that it started, NaN without /proc."""
    fields: dict[int, list[str]] = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields[int(path.parent.name)] = path.read_text(encoding="utf-8").rpartition(")")[2].split()
    family, newest = set(), {process} & fields.keys()
    while newest:
        family |= newest
        newest = {each for each, (_, parent, *_) in fields.items() if int(parent) in newest}
    ticks = sum(int(fields[each][11]) + int(fields[each][12]) for each in family)
    return ticks / os.sysconf("SC_CLK_TCK") if family else float("nan")


def _call(address: str, method: str, request: bytes) -> bytes:
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        return channel.unary_unary(f"/{SERVICE}/{method}")(request, timeout=_START_SECONDS, wait_for_ready=True)


@contextlib.contextmanager
def triage_server(base: pathlib.Path, options: Sequence[str], http: bool) -> Iterator[list[Server]]:
    """Starts the server that is measured, which is two in the figures if it is called over HTTP, too."""
    with tempfile.TemporaryDirectory() as directory:
        port_file = pathlib.Path(directory) / "port"
        command = ["-m", "triage_cli", "serve", "--model-base-path", os.fspath(base), "--port", "0", *options]
        command += ["--http-port", "0"] if http else []
        with _process([*command, "--port-file", os.fspath(port_file)], stdout=subprocess.PIPE) as process:
            end = time.monotonic() + _START_SECONDS
            while not port_file.exists():
                if process.poll() is not None or time.monotonic() > end:
                    raise InputError("triage serve did not start; see its message above")
                time.sleep(0.05)
            servers = [Server("triage", f"127.0.0.1:{port_file.read_text().strip()}", process.pid)]
            if http:
                lines = cast(IO[str], process.stdout)
                lines.readline()  # where it listens
                servers.append(Server("http", lines.readline().strip().rpartition("/")[2], process.pid, HTTP))
            yield servers


@contextlib.contextmanager
def _peer(kind: str, options: Sequence[str]) -> Iterator[Server]:
    with _process(["-m", "serving.bench.peers", kind, *options], subprocess.PIPE, subprocess.PIPE) as process:
        port = cast(IO[str], process.stdout).readline().strip()
        if not port:
            raise InputError(f"the {kind} server did not start; see its message above")
        yield Server(kind, f"127.0.0.1:{port}", process.pid)


@contextlib.contextmanager
def _load(requests: Sequence[bytes]) -> Iterator[_Load]:
    with _process(["-m", "serving.bench.load"], subprocess.PIPE, subprocess.PIPE) as process:
        yield _Load(process, requests)


@contextlib.contextmanager
def _process(
    arguments: Sequence[str], stdout: int, stdin: int = subprocess.DEVNULL
) -> "Iterator[subprocess.Popen[str]]":
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(  # noqa: S603 (this program's own modules)
        [sys.executable, *arguments], stdin=stdin, stdout=stdout, text=True, env=environment
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()

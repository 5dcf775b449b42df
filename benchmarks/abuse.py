"""Shows that callers who send too much, by any port, neither slow small calls down nor fill the server's memory.

    python benchmarks/abuse.py --model-base-path MODELS --seconds 5 --json FILE

It starts `triage serve` on the loopback address. While another process sends what each row of the table names, one
caller asks about single states, one call after the other. The table has these small calls' median, 99th percentile and
longest time, which shows a stall that one call waits out; how far the server's resident memory rose above that before
the first row; and how the other calls ended. gRPC callers wait as long as a refusal tells them to, except in the rows
"at once"; others never wait. Rows whose connections read nothing send what the server accepts. In the rows "calls on
new connections" each small call opens one; over TLS the server has a certificate that the program openssl makes.
"""

import argparse
import collections
import contextlib
import http.client
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grpc
import numpy as np
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from rich.console import Console
from rich.table import Table

from schemas import features
from schemas.evidence import Vocabulary
from schemas.model_directory import find_version
from triage_client.v1 import triage_pb2, triage_service_pb2
from triage_runtime.command_line import json_output

ROOT = pathlib.Path(__file__).resolve().parents[1]
TRIAGE, BATCH = "/triage.v1.TriageService/Triage", "/triage.v1.TriageService/BatchTriage"
INTERVIEW = "/triage.v1.TriageService/Interview"
VOCABULARY = "/triage.v1.TriageService/GetVocabulary"
WATCH = "/grpc.health.v1.Health/Watch"
PREDICT = "/tensorflow.serving.PredictionService/Predict"
DEADLINE_SECONDS = 60.0
MESSAGE_BYTES = 4 * 1024 * 1024 - 1024
DIRECT = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-base-path", type=pathlib.Path, required=True, help="folder of versions")
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of each row (default 5)")
    parser.add_argument("--only", nargs="+", choices=ATTACKS, metavar="ROW", help="rows to measure (default: all)")
    parser.add_argument("--serve-option", action="append", default=[], help="an option for triage serve")
    parser.add_argument("--attack", nargs=4, metavar=("ROW", "GRPC", "HTTP", "METRICS"), help=argparse.SUPPRESS)
    json_output.add_argument(parser)
    arguments = parser.parse_args()
    vocabulary = vocabulary_of(arguments.model_base_path)
    excluded = {found.code for found in vocabulary.relations.contradictions(vocabulary.codes, frozenset())}
    codes = sorted(vocabulary.codes, key=lambda code: (code in excluded, len(code)))  # the first may all be present
    if arguments.attack:
        name, *addresses = arguments.attack
        make, ended = ATTACKS[name](codes), collections.Counter[str]()
        print("begun", flush=True)
        make(Ports(*addresses), time.monotonic() + arguments.seconds, ended)
        print(json.dumps(ended))
        return
    json_output.check(arguments.json)
    chosen = arguments.only or list(ATTACKS)
    rows = attacked([name for name in chosen if name not in OVER_TLS], arguments, codes)
    with tempfile.TemporaryDirectory() as folder:
        if over_tls := [name for name in chosen if name in OVER_TLS]:
            rows |= attacked(over_tls, arguments, codes, make_certificate(pathlib.Path(folder)))
    show(rows)
    json_output.write({"rows": rows}, arguments.json)


def attacked(
    names: list[str], arguments: argparse.Namespace, codes: list[str], keys: tuple[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Returns the rows of attacks on one server, over TLS if it is to have `keys`: a certificate and its key."""
    if not names:
        return {}
    options = ["--tls-certificate", keys[0], "--tls-key", keys[1]] if keys else []
    rows = {}
    with server(arguments.model_base_path, [*arguments.serve_option, *options]) as (process, ports):
        small = SmallCalls(ports.grpc, codes, pathlib.Path(keys[0]).read_bytes() if keys else None)
        small.measure(2.0)  # warm
        before = resident_mb(process.pid)
        for name in names:
            command = attack_command(arguments.model_base_path, arguments.seconds, name, ports)
            row = measure(command, small, process.pid, arguments.seconds, name in ON_NEW_CONNECTIONS)
            rows[name] = row | {"growth_mb": row["peak_mb"] - before, "resident_mb": before}
    return rows


def make_certificate(folder: pathlib.Path) -> tuple[str, str]:
    """Returns files of a certificate for the loopback address and of its key."""
    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate, "-keyout", key]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def vocabulary_of(base: pathlib.Path) -> Vocabulary:
    return Vocabulary.load(find_version(base) / "assets" / "vocabulary.csv")


class Ports(NamedTuple):
    """HOST:PORT of each of a server's ports."""

    grpc: str
    http: str
    metrics: str


@contextlib.contextmanager
def server(base: pathlib.Path, options: list[str]) -> Iterator[tuple["subprocess.Popen[str]", Ports]]:
    """Yields the process of a server and its ports."""
    command = [sys.executable, str(ROOT / "triage_cli.py"), "serve", "--model-base-path", str(base)]
    command += ["--port", "0", "--http-port", "0", "--metrics-port", "0"]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            [*command, "--poll-seconds", "0", *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(),
        ) as process,
    ):
        try:
            grpc_line, http_line, metrics_line = (line_of(process).split()[2].rstrip(",") for _ in range(3))
            yield process, Ports(grpc_line, http_line.split("/")[2], metrics_line.split("/")[2])
        finally:
            process.terminate()


def line_of(process: "subprocess.Popen[str]") -> str:
    return process.stdout.readline() if process.stdout else ""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def attack_command(base: pathlib.Path, seconds: float, name: str, ports: Ports) -> list[str]:
    """Returns the command of the process that attacks."""
    command = [sys.executable, __file__, "--model-base-path", str(base), "--seconds", str(seconds)]
    return [*command, "--attack", name, *ports]


def measure(
    command: list[str], small: "SmallCalls", process: int, seconds: float, on_new_connections: bool
) -> dict[str, Any]:
    """Returns one row: the small calls and the peak of memory during an attack, and how its calls ended."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as attacker:
        line_of(attacker)  # it has begun
        peaks = Peak(process)
        figures_of_small = small.measure(seconds, on_new_connections)
        ended = json.loads(line_of(attacker))
        return {**figures_of_small, "peak_mb": peaks.stop(), "ended": ended}


class SmallCalls:
    """Calls about single states, one after the other; over TLS if there is a certificate to trust."""

    def __init__(self, address: str, codes: list[str], certificate: bytes | None):
        self._address, self._certificate = address, certificate
        self._request = triage_service_pb2.TriageRequest(state=state(codes[:10])).SerializeToString()

    def measure(self, seconds: float, on_new_connections: bool = False) -> dict[str, float]:
        """Returns number and durations of the calls, for each of which a connection may be opened."""
        durations, failed, end = [], 0, time.monotonic() + seconds
        with self._channel() as kept:
            while time.monotonic() < end:
                begin = time.perf_counter()
                with self._channel() if on_new_connections else contextlib.nullcontext(kept) as channel:
                    try:
                        channel.unary_unary(TRIAGE)(self._request, timeout=DEADLINE_SECONDS)
                    except grpc.RpcError:
                        failed += 1
                durations.append(1000 * (time.perf_counter() - begin))
        p50, p99, longest = np.percentile(durations, (50, 99, 100)).tolist()
        return {"calls": len(durations), "failed": failed, "p50_ms": p50, "p99_ms": p99, "longest_ms": longest}

    def _channel(self) -> grpc.Channel:
        if self._certificate is None:
            return grpc.insecure_channel(self._address, DIRECT)
        return grpc.secure_channel(self._address, grpc.ssl_channel_credentials(self._certificate), DIRECT)


class Peak:
    """Notes the largest resident memory of a process until `stop`."""

    def __init__(self, process: int):
        self._process, self._peak, self._end = process, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> float:
        self._end.set()
        self._thread.join()
        return self._peak

    def _run(self) -> None:
        while not self._end.wait(0.02):
            self._peak = max(self._peak, resident_mb(self._process))


def resident_mb(process: int) -> float:
    pages = int(pathlib.Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def state(codes: list[str]) -> triage_pb2.EvidenceState:
    present = triage_pb2.EVIDENCE_STATUS_PRESENT
    return triage_pb2.EvidenceState(evidence=[triage_pb2.Evidence(code=code, status=present) for code in codes])


def batches(codes: list[str], states: int, pieces: int, **options: Any) -> bytes:
    return triage_service_pb2.BatchTriageRequest(states=[state(codes[:pieces])] * states, **options).SerializeToString()


def predict(signature: str, **shapes: tuple[Any, list[int]]) -> bytes:
    """Returns a small request that declares large tensors: one value fills them."""
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest(model_spec={"name": "triage", "signature_name": signature})
    for alias, (kind, shape) in shapes.items():
        tensor = request.inputs[alias]
        tensor.dtype = kind
        for size in shape:
            tensor.tensor_shape.dim.add(size=size)
        {1: tensor.float_val, 3: tensor.int_val, 7: tensor.string_val}[kind].append({7: b""}.get(kind, 0))
    return request.SerializeToString()


def dense_tensors(codes: list[str]) -> bytes:
    return predict(features.STATE, states=(1, [1024, len(codes)]), questions_asked=(3, [1024]))


def code_tensors(codes: list[str]) -> bytes:
    return predict(
        features.SERVING_DEFAULT, present=(7, [1024, 1024]), absent=(7, [1024, 1024]), questions_asked=(3, [1024])
    )


EMPTY = b"\x0a\x00"
"""Field 1 of a protobuf message, of length 0."""
TWO_MILLION = MESSAGE_BYTES // len(EMPTY)


def nested(content: bytes, number: int = 1) -> bytes:
    """Returns a field that holds a protobuf message."""
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def interview(pieces: int) -> bytes:
    """Returns the first message of an interview, in which empty pieces of evidence are said together."""
    return nested(b"", 2) + nested(b"", 5) * pieces


def many_inputs(codes: list[str]) -> bytes:
    return b"".join(nested(nested(b"%06d" % number), 2) for number in range(230_000))


def unknown(codes: list[str]) -> bytes:
    return batches([f"{code}_" for code in codes], 700, 220, allow_unknown_codes=True)


Attack = Callable[[Ports, float, "collections.Counter[str]"], None]
"""Attacks the ports until a time, by `time.monotonic`, and counts how that ended."""


def calls(
    method: str,
    make: Callable[[list[str]], bytes],
    callers: int,
    patient: bool = True,
    compression: grpc.Compression = grpc.Compression.NoCompression,
) -> Callable[[list[str]], Attack]:
    """Returns an attack of callers over gRPC, who wait before they try again if they are `patient`."""

    def prepared(codes: list[str]) -> Attack:
        request = make(codes)

        def send(ports: Ports, end: float, ended: "collections.Counter[str]") -> None:
            options = [*DIRECT, ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
            with grpc.insecure_channel(ports.grpc, options, compression) as channel:
                ask = channel.unary_unary(method)
                while time.monotonic() < end:
                    try:
                        ask(request, timeout=DEADLINE_SECONDS)
                        ended["OK"] += 1
                    except grpc.RpcError as error:
                        ended[error.code().name] += 1
                        if patient:
                            time.sleep(retry_seconds(error))

        return in_threads(send, callers)

    return prepared


def in_threads(send: Attack, number: int) -> Attack:
    def attack(ports: Ports, end: float, ended: "collections.Counter[str]") -> None:
        threads = [threading.Thread(target=send, args=(ports, end, ended)) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return attack


def watches(connections: int, number: int) -> Callable[[list[str]], Attack]:
    """Returns an attack of connections that each watch health many times, and read what comes."""

    def attack(ports: Ports, end: float, ended: "collections.Counter[str]") -> None:
        with contextlib.ExitStack() as stack:
            channels = [stack.enter_context(grpc.insecure_channel(ports.grpc, DIRECT)) for _ in range(connections)]
            begun = [channel.unary_stream(WATCH)(b"") for channel in channels for _ in range(number)]
            time.sleep(max(0.0, end - time.monotonic()))
            ended.update(watch.code().name if watch.done() else "open" for watch in begun)

    return lambda codes: attack


def posts(path: str, make: Callable[[list[str]], bytes], callers: int) -> Callable[[list[str]], Attack]:
    """Returns an attack of callers over HTTP, who do not wait before they try again."""

    def prepared(codes: list[str]) -> Attack:
        body = make(codes)

        def send(ports: Ports, end: float, ended: "collections.Counter[str]") -> None:
            connection = http.client.HTTPConnection(ports.http, timeout=DEADLINE_SECONDS)
            while time.monotonic() < end:
                try:
                    connection.request("POST", path, body, {"content-type": "application/json"})
                    answer = connection.getresponse()
                    answer.read()
                    ended[str(answer.status)] += 1
                except (OSError, http.client.HTTPException):
                    ended["closed"] += 1
                    connection.close()

        return in_threads(send, callers)

    return prepared


def legal(codes: list[str]) -> bytes:
    """Returns a batch in JSON of almost 4 MiB."""
    return (
        json.dumps({"states": [{"present": codes[:280]}] * 1024}).encode()[:MESSAGE_BYTES].rpartition(b", {")[0] + b"]}"
    )


def streams(begin: bytes, again: bytes, connections: int, port: str = "grpc") -> Callable[[list[str]], Attack]:
    """Returns an attack of connections that send some bytes, then others again and again, and read nothing."""

    def send(ports: Ports, end: float, ended: "collections.Counter[str]") -> None:
        host, _, number = getattr(ports, port).rpartition(":")
        try:
            with socket.create_connection((host, int(number))) as connection:
                connection.settimeout(0.2)
                connection.sendall(begin)
                while time.monotonic() < end:
                    try:
                        connection.sendall(again) if again else time.sleep(0.1)
                    except TimeoutError:
                        ended["blocked"] += 1
                    else:
                        ended["sent"] += 1
        except OSError:
            ended["closed"] += 1

    return lambda codes: in_threads(send, connections)


def frame(kind: int, payload: bytes, stream: int = 0, flags: int = 0) -> bytes:
    """Returns a frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, b"")
PINGS = frame(6, b"12345678") * 4096


HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
HEADER = b"a: " + b"b" * 65536 + b"\r\n"


def header(name: bytes, value: bytes) -> bytes:
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def many(piece: str, begin: str, end: str) -> bytes:
    """Returns JSON with as many pieces as fit."""
    return f"{begin}{','.join([piece] * (MESSAGE_BYTES // (len(piece) + 1) - 32))}{end}".encode()


def unknown_keys(codes: list[str]) -> bytes:
    return b"{" + b",".join(b'"%07d":0' % number for number in range(340_000)) + b"}"


def unread_calls(method: str, number: int) -> bytes:
    """Returns calls with empty requests on one connection of HTTP/2."""
    headers = {":method": "POST", ":scheme": "http", ":path": method, ":authority": "test", "te": "trailers"}
    fields = {**headers, "content-type": "application/grpc"}
    block = b"".join(header(name.encode(), value.encode()) for name, value in fields.items())
    streams = range(1, 2 * number, 2)
    return b"".join(frame(1, block, stream, 4) + frame(0, b"\0\0\0\0\0", stream, 1) for stream in streams)


ATTACKS: dict[str, Callable[[list[str]], Attack]] = {
    "nothing": calls(BATCH, lambda codes: b"", 0),
    "64 batches of 700 states x 280 codes (3 MB)": calls(BATCH, lambda codes: batches(codes, 700, 280), 64),
    "200 batches of 700 states x 280 codes (3 MB)": calls(BATCH, lambda codes: batches(codes, 700, 280), 200),
    "the same, again at once": calls(BATCH, lambda codes: batches(codes, 700, 280), 200, patient=False),
    "200 batches of 1,024 states x 1 code": calls(BATCH, lambda codes: batches(codes, 1024, 1), 200),
    "the same, again at once ": calls(BATCH, lambda codes: batches(codes, 1024, 1), 200, patient=False),
    "64 batches of unknown codes, allowed": calls(BATCH, unknown, 64),
    "64 batches of unknown codes, refused": calls(
        BATCH, lambda codes: batches([f"{code}_" for code in codes], 700, 220), 64
    ),
    "64 messages of 4 MiB that cannot be parsed": calls(BATCH, lambda codes: b"\xff" * MESSAGE_BYTES, 64),
    "64 Predicts that declare 1,024 states": calls(PREDICT, dense_tensors, 64),
    "64 Predicts that declare 2 million codes": calls(PREDICT, code_tensors, 64),
    "one state of 2 million pieces": calls(TRIAGE, lambda codes: nested(EMPTY * TWO_MILLION), 1),
    "8 batches of 2 million states": calls(BATCH, lambda codes: EMPTY * TWO_MILLION, 8),
    "8 interviews of 440,000 pieces at once": calls(INTERVIEW, lambda codes: interview(440_000), 8),
    "8 batches of 1,024 states x 2,000 pieces": calls(BATCH, lambda codes: nested(EMPTY * 2000) * 1024, 8),
    "one Predict of 230,000 inputs": calls(PREDICT, many_inputs, 1),
    "2 callers of 100 MB of zeros, compressed": calls(
        TRIAGE, lambda codes: bytes(100_000_000), 2, compression=grpc.Compression.Gzip
    ),
    "3 connections that only send PINGs": streams(PREFACE, PINGS, 3),
    "one caller of 4 MiB of unknown keys (HTTP)": posts("/v1/triage", unknown_keys, 1),
    "8 callers of 1.3 million states (HTTP)": posts("/v1/triage", lambda codes: many("{}", '{"states": [', "]}"), 8),
    "8 callers of 1.3 million lists (HTTP)": posts(
        "/v1/models/triage:predict", lambda codes: many("[]", '{"instances": [', "]}"), 8
    ),
    "8 callers of 2 million numbers (HTTP)": posts(
        "/v1/models/triage:predict", lambda codes: many("0", '{"inputs": {"states": [', "]}}"), 8
    ),
    "64 callers of 4 MiB of legal states (HTTP)": posts("/v1/triage", legal, 64),
    "8 connections of HTTP headers without end": streams(HEAD, HEADER, 8, "http"),
    "8 connections of one HTTP header without end": streams(HEAD, b"a" * 65536, 8, "http"),
    "1,500 idle HTTP connections": streams(HEAD, b"", 1500, "http"),
    "1,500 idle connections of the metrics' port": streams(HEAD, b"", 1500, "metrics"),
    "100 connections of 128 Watches of health": watches(100, 128),
    "100 connections of 128 GetVocabulary, never read": streams(PREFACE + unread_calls(VOCABULARY, 128), b"", 100),
    "200 idle gRPC connections, calls on new connections": streams(PREFACE, b"", 200),
    "1,500 idle gRPC connections, calls on new connections": streams(PREFACE, b"", 1500),
    "1,500 TLS handshakes left open, calls on new connections": streams(b"", b"", 1500),
}
ON_NEW_CONNECTIONS = {name for name in ATTACKS if name.endswith("calls on new connections")}
OVER_TLS = {name for name in ATTACKS if "TLS" in name}


def retry_seconds(error: Any) -> float:
    info = error_details_pb2.RetryInfo()
    status = rpc_status.from_call(error)
    for detail in [] if status is None else status.details:
        if detail.Unpack(info):
            return info.retry_delay.ToTimedelta().total_seconds()
    return 0.0


def show(rows: dict[str, dict[str, Any]]) -> None:
    table = Table()
    numbers = ("small calls", "p50 ms", "p99 ms", "longest ms", "memory growth MB")
    for column in ("while others send", *numbers, "how the others ended"):
        table.add_column(column, justify="right" if column in numbers else "left")
    for name, row in rows.items():
        ended = ", ".join(f"{code} {count}" for code, count in sorted(row["ended"].items()))
        failed = f" ({row['failed']} failed)" if row["failed"] else ""
        table.add_row(
            name, f"{row['calls']}{failed}", f"{row['p50_ms']:.1f}", f"{row['p99_ms']:.1f}",
            f"{row['longest_ms']:.0f}", f"{row['growth_mb']:.0f}", ended,
        )  # fmt: skip
    Console(width=160).print(table)


if __name__ == "__main__":
    main()

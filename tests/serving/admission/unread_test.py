"""Answers that nobody reads: how much a caller may leave, and that others are answered meanwhile."""

import socket
import struct

import pytest

from serving.messages import state_message
from tests.builders import counted
from tests.waiting import until
from triage.v1 import triage_service_pb2
from triage_client import TriageClient, evidence_state

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, payload, stream=0, flags=0):
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name, value):
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


CALL = b"".join(
    header(name, value)
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/triage.v1.TriageService/BatchTriage"),
        (b":authority", b"test"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    )
)


def handled(server, code):
    """Returns how many calls of BatchTriage ended with a status."""
    return counted(server, "grpc_server_handled_total", grpc_method="BatchTriage", grpc_code=code)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_connection_that_reads_nothing_is_refused_more_answers_and_others_are_not(serving, at_once):
    request = triage_service_pb2.BatchTriageRequest(states=[state_message(["fever"])] * 60).SerializeToString()
    with serving(max_pending_bytes=50_000, metrics_port=0) as server:
        with TriageClient(server.address, timeout_seconds=60.0) as client:
            size = 60 * client.triage(evidence_state(["fever"])).ByteSize()
        # Answers of more than 5 kB each: a later call finds more than 25 kB of its caller's unread, half of 50 kB.
        assert 5_000 < size < 25_000
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            no_window = struct.pack(">HI", 4, 0)  # SETTINGS_INITIAL_WINDOW_SIZE 0: no byte of an answer may come
            connection.sendall(PREFACE + frame(4, no_window))
            body = frame(0, b"\x00" + struct.pack(">I", len(request)) + request, 0, 1)
            streams = range(1, 21, 2)
            heads = [frame(1, CALL, stream, 4) for stream in streams]
            bodies = [body[:5] + struct.pack(">I", stream) + body[9:] for stream in streams]
            # All heads first: every call has entered before the first one is answered.
            sent = (
                [b"".join(heads + bodies)]
                if at_once
                else [b"".join(parts) for parts in zip(heads, bodies, strict=True)]
            )
            for number, part in enumerate(sent, start=1):
                connection.sendall(part)
                ended = len(streams) if at_once else number
                until(lambda: handled(server, "OK") + handled(server, "RESOURCE_EXHAUSTED") >= ended)  # noqa: B023
            assert handled(server, "OK") == min(25_000 // size + 1, 10)
            with TriageClient(server.address, timeout_seconds=60.0) as client:
                assert len(client.batch_triage([evidence_state(["fever"])] * 60)) == 60

"""Slow, half-open and vanishing clients: the server answers the others, and frees their places."""

import asyncio
import signal
import socket
import threading

import grpc
import pytest

from serving.admission import idle_timeout
from serving.admission.idle_timeout import IdleTimeout
from serving.messages import state_message
from tests.waiting import until
from triage.v1 import triage_pb2, triage_service_pb2, triage_service_pb2_grpc
from triage_client import ResourceExhaustedError, TriageClient, evidence_state

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
HALF_A_FRAME = b"\x00\x00\x40\x01\x04\x00\x00\x00\x01half"  # HEADERS of 64 bytes, of which 4 arrive
OWN_CONNECTION = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]


def own_channel(server):
    return grpc.insecure_channel(server.address, options=OWN_CONNECTION)


class Stream:
    """A call whose messages arrive when the test says so."""

    def __init__(self):
        self.messages, self.aborted = asyncio.Queue(), asyncio.Event()

    async def read(self):
        return await self.messages.get()

    async def abort(self, code, details):
        self.aborted.set()
        raise grpc.aio.AbortError


def test_a_stream_is_cut_off_for_one_long_silence_and_not_for_two_short_ones():
    async def talk():
        reader, stream = IdleTimeout(20.0), Stream()
        for _ in range(2):  # a message arrives between two looks
            listening = asyncio.create_task(reader.read(stream))
            await asyncio.sleep(0)
            reader.look()
            stream.messages.put_nowait(b"something")
            assert await listening == b"something"
        listening = asyncio.create_task(reader.read(stream))
        await asyncio.sleep(0)
        reader.look()
        assert not stream.aborted.is_set()
        reader.look()
        await asyncio.wait_for(stream.aborted.wait(), 30)
        listening.cancel()

    asyncio.run(talk())


FEVER = triage_service_pb2.InterviewRequest(
    evidence={"code": "fever", "status": triage_pb2.EVIDENCE_STATUS_PRESENT}
).SerializeToString()


INTERVIEW = """
import queue, sys, grpc
channel = grpc.insecure_channel(sys.argv[1], options=[("grpc.enable_http_proxy", 0)])
said = queue.SimpleQueue()
said.put(bytes.fromhex(sys.argv[2]))
answers = channel.stream_stream("/triage.v1.TriageService/Interview")(iter(said.get, None), timeout=3000)
next(answers)
print("begun", flush=True)
next(answers)
"""


def can_interview(client):
    try:
        with client.interview(timeout_seconds=60) as interview:
            return interview.present("fever").response.model_version == "3"
    except ResourceExhaustedError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_an_interview_whose_client_vanishes_gives_its_place_back(serving, start, number):
    settings = {"max_interviews": 1, "silence_seconds": 1.0}
    with serving(**settings) as server, TriageClient(server.address, timeout_seconds=60.0) as client:
        process = start("-c", INTERVIEW, server.address, FEVER.hex())
        assert process.stdout.readline() == "begun\n"
        assert not can_interview(client)
        # A process that stands still is like a machine that lost its network: only its kernel acknowledges.
        process.send_signal(number)
        assert client.triage(evidence_state(["fever"])).model_version == "3"
        until(lambda: can_interview(client))


@pytest.mark.parametrize("sent", [b"", PREFACE[:10], PREFACE + SETTINGS + HALF_A_FRAME])
def test_a_connection_on_which_half_of_something_comes_is_closed(serving, sent):
    with (
        serving(silence_seconds=1.0) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw,
    ):
        raw.sendall(sent)
        while raw.recv(4096):
            pass


def test_a_handshake_that_does_not_end_is_ended(serving, tls, monkeypatch):
    monkeypatch.setattr(idle_timeout, "HANDSHAKE_SECONDS", 0.3)
    with (
        serving(silence_seconds=600.0, **tls) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw,
    ):
        assert raw.recv(4096) == b""


@pytest.mark.slow
def test_a_connection_without_calls_is_closed_and_opened_again_for_the_next_call(serving):
    states, idle = [], threading.Event()

    def note(state):
        states.append(state)
        if state is grpc.ChannelConnectivity.IDLE and grpc.ChannelConnectivity.READY in states:
            idle.set()

    with serving(silence_seconds=1.0) as server, own_channel(server) as channel:  # closed after 15 times as long
        triage = triage_service_pb2_grpc.TriageServiceStub(channel).Triage
        request = triage_service_pb2.TriageRequest(state=state_message(["fever"]))
        assert triage(request, timeout=60).model_version == "3"
        channel.subscribe(note)
        assert idle.wait(60)
        assert triage(request, timeout=60).model_version == "3"


def test_a_connection_beyond_the_limit_is_closed_at_once_and_a_later_one_is_not(serving):
    def greeted(connection):
        """Whether the server answers on a connection, and does not close it."""
        connection.settimeout(60)
        connection.sendall(PREFACE + SETTINGS)
        try:
            return connection.recv(64) != b""
        except ConnectionResetError:
            return False

    with serving(max_connections=2) as server:
        connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
        assert all(map(greeted, connections))
        with socket.create_connection(("127.0.0.1", server.port)) as third:
            assert not greeted(third)
        connections.pop().close()

        def accepted():
            with socket.create_connection(("127.0.0.1", server.port)) as later:
                return greeted(later)

        until(accepted)
        connections.pop().close()

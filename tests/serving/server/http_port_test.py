"""The port itself: addresses that are taken, silent connections, and requests in progress at the end."""

import asyncio
import contextlib
import socket
import ssl
import threading

import httpx
import pytest
from starlette.responses import PlainTextResponse

from schemas.errors import InputError
from serving.config.settings import ServeConfig
from serving.security import ServerCertificate
from serving.server import http_port
from serving.server.http_port import HttpPort
from tests.waiting import until


class Slow:
    """An application that answers when the test says so."""

    def __init__(self):
        self.asked, self.gate = threading.Event(), asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.asked.set()
        await self.gate.wait()
        await PlainTextResponse("answered")(scope, receive, send)


@pytest.fixture
def listening(loop):
    """Listens with an application that answers all requests, for the length of a `with` block."""

    @contextlib.contextmanager
    def listen(app=None, certificate=None, **settings):
        port = HttpPort(loop, ServeConfig(http_port=0, **settings), certificate)
        port.start(app or PlainTextResponse("answered"))
        yield port
        port.stop(0)

    return listen


def test_a_port_that_is_taken_is_reported(loop):
    port = HttpPort(loop, ServeConfig(http_port=0))
    with pytest.raises(InputError, match=r"^--http-port: .*127\.0\.0\.1:\d+: "):
        HttpPort(loop, ServeConfig(http_port=port.port))
    port.stop(0)
    HttpPort(loop, ServeConfig(http_port=port.port)).stop(0)  # it is free again


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nHalf-a-hea"])
def test_a_connection_on_which_no_request_arrives_is_closed(listening, sent):
    with listening(silence_seconds=0.3) as port, connect(port) as connection:
        connection.sendall(sent)
        assert rest(connection) == b""


def test_a_request_in_progress_is_answered_when_the_server_ends(loop):
    app, answers = Slow(), []
    port = HttpPort(loop, ServeConfig(http_port=0, silence_seconds=600.0))
    port.start(app)
    asking = threading.Thread(target=lambda: answers.append(httpx.get(port.url, trust_env=False, timeout=60).text))
    asking.start()
    assert app.asked.wait(30)
    stopping = threading.Thread(target=port.stop, args=(30,))
    stopping.start()
    loop.loop.call_soon_threadsafe(app.gate.set)
    asking.join()
    stopping.join()
    assert answers == ["answered"]


def connect(port):
    return socket.create_connection(("127.0.0.1", port.port), timeout=60)


def rest(connection):
    """All that the server still sends before it closes."""
    parts = []
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def send_all(connection, parts):
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        for part in parts:
            connection.sendall(part)


BEGIN = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        [BEGIN, *[b"a" * 1024] * 1000],
        [BEGIN, b"a: ", *[b"b" * 1024] * 1000],
        [b"GET /", *[b"b" * 1024] * 1000],
        [BEGIN, *[b"a: b\r\n"] * 100, b"\r\n"],  # with Host 101
        [BEGIN, *[b"a: " + b"b" * 1000 + b"\r\n"] * 33, b"\r\n"],
        [b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"1;", *[b"b" * 1024] * 1000],
        [b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: ", *[b"b" * 1024] * 1000],
    ],
    ids=["name", "value", "path", "number", "sum", "extension", "trailer"],
)
def test_headers_beyond_the_limits_are_refused_before_they_have_come(listening, parts):
    with listening(Slow()) as port, connect(port) as connection:
        send_all(connection, parts)
        answer = rest(connection)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")  # where more came meanwhile, a reset takes it away


def test_headers_up_to_the_limits_pass(listening):
    with listening() as port, connect(port) as connection:
        headers = b"".join(b"h%d: %s\r\n" % (number, b"b" * 300) for number in range(98))  # 30 kB, 99 with Host
        connection.sendall(BEGIN + headers + b"connection: close\r\n\r\n")
        assert rest(connection).endswith(b"answered")


def test_requests_that_are_not_waited_for_are_limited(listening):
    with listening(Slow()) as port, connect(port) as connection:
        connection.sendall((BEGIN + b"\r\n") * 18)  # one in progress and 17 behind it
        assert rest(connection).startswith(b"HTTP/1.1 400 ")


def test_one_peer_has_as_many_connections_as_are_left_to_others(listening):
    with listening(max_connections=4) as port:
        kept = [connect(port) for _ in range(2)]
        for connection in kept:
            connection.sendall(BEGIN + b"\r\n")
            answer = b""
            while not answer.endswith(b"answered"):  # headers and body may come apart
                answer += (part := connection.recv(4096))
                assert part
        with connect(port) as third:
            assert rest(third) == b""
        kept.pop().close()

        def answered():
            with connect(port) as later:
                send_all(later, [BEGIN + b"connection: close\r\n\r\n"])
                return rest(later).endswith(b"answered")

        until(answered)
        kept.pop().close()


def test_a_connection_that_does_not_read_its_answer_is_closed(listening):
    closed = threading.Event()

    async def answer(scope, receive, send):
        sending = asyncio.create_task(send_parts(send))
        while (await receive())["type"] != "http.disconnect":
            pass
        closed.set()
        await sending

    async def send_parts(send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(50):
            await send({"type": "http.response.body", "body": b"a" * 1_000_000, "more_body": True})

    with listening(answer, silence_seconds=0.3) as port:

        def is_closed():
            """Asks, unless the connection was closed before: the machine may be busy."""
            with connect(port) as connection:
                send_all(connection, [BEGIN + b"\r\n"])
                if not closed.wait(10):
                    return False
                assert len(rest(connection)) < 50_000_000
                return True

        until(is_closed)


def test_a_handshake_that_does_not_end_is_ended(listening, tls, certificates, monkeypatch):
    monkeypatch.setattr(http_port, "HANDSHAKE_SECONDS", 0.3)
    trust = ssl.create_default_context(cafile=certificates.ca)
    with listening(certificate=ServerCertificate(*tls.values()), silence_seconds=600.0, **tls) as port:
        with connect(port) as connection:
            assert rest(connection) == b""
        answer = httpx.get(f"https://localhost:{port.port}", verify=trust, trust_env=False, timeout=60)
        assert answer.text == "answered"

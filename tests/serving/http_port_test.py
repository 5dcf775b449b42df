"""The port itself: addresses that are taken, silent connections, and requests in progress at the end."""

import asyncio
import socket
import threading

import httpx
import pytest
from starlette.responses import PlainTextResponse

from schemas.errors import InputError
from serving.calls import EventLoop
from serving.config import ServeConfig
from serving.http_port import HttpPort


class Slow:
    """An application that answers when the test says so."""

    def __init__(self):
        self.asked, self.gate = threading.Event(), asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.asked.set()
        await self.gate.wait()
        await PlainTextResponse("answered")(scope, receive, send)


@pytest.fixture
def loop():
    loop = EventLoop("http")
    yield loop
    loop.close()


def test_a_port_that_is_taken_is_reported(loop):
    port = HttpPort(loop, ServeConfig(http_port=0))
    with pytest.raises(InputError, match=r"^--http-port: cannot listen on 127.0.0.1:\d+: Address already in use"):
        HttpPort(loop, ServeConfig(http_port=port.port))
    port.stop(0)
    HttpPort(loop, ServeConfig(http_port=port.port)).stop(0)  # it is free again


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nHalf-a-hea"])
def test_a_connection_on_which_no_request_arrives_is_closed(loop, sent):
    port = HttpPort(loop, ServeConfig(http_port=0, silence_seconds=0.3))
    port.start(PlainTextResponse("answered"))
    with socket.create_connection(("127.0.0.1", port.port), timeout=30) as raw:
        raw.sendall(sent)
        assert raw.recv(4096) == b""
    port.stop(0)


def test_a_request_in_progress_is_answered_when_the_server_ends(loop):
    app, answers = Slow(), []
    port = HttpPort(loop, ServeConfig(http_port=0, silence_seconds=0.2))
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

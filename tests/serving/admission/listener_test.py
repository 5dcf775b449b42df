"""A port, from binding to release."""

import time

import grpc
import pytest

from serving.admission import idle_timeout
from serving.admission.admission import Admission
from serving.admission.event_loop import Workers
from serving.admission.grpc_handler import GrpcHandler
from serving.admission.listener import Listener
from serving.security import LocalReloads
from tests.builders import channel_to


@pytest.fixture
def listen(loop):
    """Listens with a service whose one method echoes its request."""

    async def echo(request, context):
        return request

    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}

    def listen(port=0, host="127.0.0.1"):
        handler = GrpcHandler(Admission(LocalReloads(), calls=8), Workers(1))
        handler.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", handlers),))
        return Listener(loop, handler, (host, port), 20.0)

    return listen


@pytest.mark.slow
def test_calls_that_the_loop_does_not_look_at_are_ended(listen, loop, monkeypatch):
    """gRPC holds them, also those of connections that are closed already."""
    monkeypatch.setattr(idle_timeout, "UNSEEN_SECONDS", 1)
    listener = listen()
    listener.start()
    with channel_to(listener.address) as channel:
        call = channel.unary_unary("/test.Service/Echo")
        assert call(b"seven", timeout=60) == b"seven"
        loop.loop.call_soon_threadsafe(time.sleep, 3)
        first, *others = [call.future(b"eight", timeout=600) for _ in range(5)]
        assert first.result() == b"eight"  # the loop asks for one call in advance
        assert {other.code() for other in others} == {grpc.StatusCode.CANCELLED}
        assert call(b"nine", timeout=60) == b"nine"
    listener.stop(0)


def test_a_compressed_request_is_refused_and_not_decompressed(listen):
    listener = listen()
    listener.start()
    options = [("grpc.enable_http_proxy", 0), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(listener.address, options=options, compression=grpc.Compression.Gzip) as channel:
        call = channel.unary_unary("/test.Service/Echo")
        for size in (100, 5_000_000):  # decompressed, the latter is above gRPC's limit, which has another status
            with pytest.raises(grpc.RpcError, match="Compression") as refused:
                call(bytes(size), timeout=30)
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    listener.stop(0)

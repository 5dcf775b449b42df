"""Tells a caller that its request is no message of the call: gRPC would say INTERNAL, as if the server failed.

gRPC may also end such a call twice, and then waits for ever for the end of it: the server could not stop any more.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.protobuf import message

from schemas.errors import InputError
from serving.capacity import rewrapped
from serving.status import end


class _Malformed:
    """Stands for a request that cannot be parsed."""


_MALFORMED = _Malformed()


class ParsingInterceptor(grpc.ServerInterceptor):
    """Ends calls whose request cannot be parsed with INVALID_ARGUMENT. Must be the last of the interceptors."""

    def __init__(self) -> None:
        self._handlers: dict[str, grpc.RpcMethodHandler] = {}  # by method, each of which has one handler

    def intercept_service(self, continuation: Callable[..., Any], details: grpc.HandlerCallDetails) -> Any:
        """Hands the call on to a handler that can be told of a request that is none."""
        found = self._handlers.get(details.method)
        if found is None:
            handler = continuation(details)
            if handler is None or handler.request_deserializer is None:
                return handler
            found = self._handlers[details.method] = _parsing(handler, details.method)
        return found


def _parsing(handler: Any, method: str) -> grpc.RpcMethodHandler:
    behavior = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream

    def parse(data: bytes) -> Any:
        try:
            return handler.request_deserializer(data)
        except message.DecodeError:
            return _MALFORMED

    @functools.wraps(behavior)  # with what tells gRPC that health's Watch does not block
    def answer(request: Any, context: grpc.ServicerContext, *more: Any) -> Any:
        if request is _MALFORMED:
            end(context, _error(), method)
        return behavior(request, context, *more)

    def answer_stream(requests: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from behavior(_checked(requests), context)  # all that take a stream return one
        except InputError as error:  # of reflection, which does not report by itself
            end(context, error, method)

    chosen: Callable[..., Any] = answer
    if handler.request_streaming:
        chosen = answer_stream
    return rewrapped(handler, chosen, parse)


def _checked(requests: Iterator[Any]) -> Iterator[Any]:
    for request in requests:
        if request is _MALFORMED:
            raise _error()
        yield request


def _error() -> InputError:
    return InputError("the request cannot be parsed: send a message of this call's type, as the .proto files have it")

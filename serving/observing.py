"""Follows each call from its arrival to its last byte, gives it a request id, and tells it to the telemetry."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from grpc_health.v1 import health

from serving import call as calls
from serving.capacity import rewrapped
from serving.telemetry import Telemetry

_HEALTH = f"/{health.SERVICE_NAME}/"


class ObservingInterceptor(grpc.ServerInterceptor):
    """Observes all calls but those of health, which come all the time. Must be the first of the interceptors."""

    def __init__(self, telemetry: Telemetry):
        self._telemetry = telemetry

    def intercept_service(self, continuation: Callable[..., Any], details: grpc.HandlerCallDetails) -> Any:
        """Hands the call on, as the current one for whatever runs for it."""
        if details.method.startswith(_HEALTH):
            return continuation(details)
        call = calls.Call(details.method, calls.request_id_of(details.invocation_metadata))
        calls.enter(call)
        self._telemetry.arrived(call, details.invocation_metadata)
        handler = continuation(details)
        if handler is None:
            call.method = "/unknown/unknown"  # the name is the caller's
            self._telemetry.ended(call, "unary", grpc.StatusCode.UNIMPLEMENTED.name)
            return None
        return _Observed(self._telemetry, call, handler).handler()

    def left(self) -> None:
        """Tells the end of the current call where nothing ran for it: its caller went away while it waited."""
        call = calls.current()
        if call.method and not call.ended:
            self._telemetry.ended(call, "unary", grpc.StatusCode.CANCELLED.name)


class _Observed:
    """One call on its way through the handler. gRPC parses the request in another thread than the one that answers."""

    def __init__(self, telemetry: Telemetry, call: calls.Call, handler: Any):
        self._telemetry = telemetry
        self._call = call
        self._handler = handler
        self._waiting_since = call.arrived
        self._streams = handler.response_streaming

    def handler(self) -> grpc.RpcMethodHandler:
        """Returns the handler that observes."""
        inner = self._handler
        behavior = inner.unary_unary or inner.unary_stream or inner.stream_unary or inner.stream_stream
        method = self._stream if self._streams else self._unary

        def observed(request: Any, context: grpc.ServicerContext) -> Any:
            return method(behavior, request, context)

        if hasattr(behavior, "experimental_thread_pool"):  # a refusal's threads
            observed.experimental_thread_pool = behavior.experimental_thread_pool  # type: ignore[attr-defined]
        return rewrapped(
            inner,
            observed,
            self._timed_deserializer if inner.request_deserializer else None,
            self._timed_serializer if inner.response_serializer else None,
        )

    def _timed_deserializer(self, data: bytes) -> Any:
        begin = time.perf_counter()
        if not self._handler.request_streaming:  # else the caller's pauses would count
            self._call.add(calls.QUEUE, self._waiting_since, begin)
        message = self._handler.request_deserializer(data)
        self._waiting_since = time.perf_counter()
        self._call.add(calls.PARSE, begin, self._waiting_since)
        return message

    def _timed_serializer(self, message: Any) -> bytes:
        begin = time.perf_counter()
        data = self._handler.response_serializer(message)
        self._call.add(calls.RESPOND, begin, time.perf_counter())
        self._telemetry.sent(self._call)
        if not self._streams:
            self._telemetry.ended(self._call, "unary", grpc.StatusCode.OK.name)
        return data

    def _unary(self, behavior: Callable[..., Any], request: Any, context: grpc.ServicerContext) -> Any:
        self._begin(context)
        try:
            return behavior(request, context)
        except BaseException:
            self._telemetry.ended(self._call, "unary", _code(context, failed=True))
            raise

    def _stream(self, behavior: Callable[..., Any], requests: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self._begin(context)
        failed = True
        try:
            yield from behavior(requests, context)
            failed = False
        finally:
            self._telemetry.ended(self._call, "bidi_stream", _code(context, failed))

    def _begin(self, context: grpc.ServicerContext) -> None:
        self._call.add(calls.QUEUE, self._waiting_since, time.perf_counter())
        context.set_trailing_metadata(((calls.REQUEST_ID, self._call.request_id),))


def _code(context: Any, failed: bool) -> str:
    """Returns the name of the status that a call ended with."""
    if context.code() is not None:
        return context.code().name
    if not context.is_active():
        late = context.time_remaining() == 0
        return (grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED).name
    return (grpc.StatusCode.UNKNOWN if failed else grpc.StatusCode.OK).name

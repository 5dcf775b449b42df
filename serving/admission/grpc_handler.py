"""Receives each call: gives it an id, admits or refuses it, reads its request, passes it on, and records its end.

All methods are declared as streams to gRPC, because it then hands a call over as soon as its headers arrive. A caller
that sends nothing more is then known, takes a place, and can be cut off. All of this runs on one event loop, which no
call may block: long work goes to the workers.
"""

import abc
import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, NoReturn

import grpc
from grpc_health.v1 import health

from schemas.errors import InputError
from serving import call as calls
from serving.admission.admission import Admission
from serving.admission.arrivals import Arrivals
from serving.admission.budget import LARGE_BYTES, Cost
from serving.admission.event_loop import Workers
from serving.admission.idle_timeout import IdleTimeout, drop_traceback
from serving.admission.parsing import parse, parse_large
from serving.admission.status import end_of
from serving.errors import UnsupportedError
from serving.telemetry import Telemetry

_HEALTH = f"/{health.SERVICE_NAME}/"
_UNKNOWN = "/unknown/unknown"
_CANCEL_SECONDS = 0.005
_SMALL_BYTES = 1024  # answers up to this length are not counted as unread, as counting takes longer than sending


class GrpcHandler(grpc.GenericRpcHandler):
    """Passes calls to servicers, which are added to it as to a `grpc.Server`.

    Coroutines and asynchronous generators run on the event loop, other methods in a worker. They raise exceptions and
    never abort. Health is always answered, whatever the limits and the access, and is not recorded.

    Callers of the methods that `may_idle` may say nothing for as long as they like.
    """

    def __init__(
        self,
        admission: Admission,
        workers: Workers,
        telemetry: Telemetry | None = None,
        idle_seconds: float = 20.0,
        may_idle: frozenset[str] = frozenset(),
    ):
        self.admission, self.workers = admission, workers
        self.telemetry = telemetry or Telemetry()
        self.idle_timeout = IdleTimeout(idle_seconds)
        self.arrivals = Arrivals(self.idle_timeout)
        self.may_idle = may_idle
        self._services: list[grpc.GenericRpcHandler] = []
        self._routes: dict[str, grpc.RpcMethodHandler] = {}
        self._unknown_method = grpc.stream_unary_rpc_method_handler(_Unary(self, _UNKNOWN, _no_such_method()).answer)

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Adds services; generated functions that add a servicer to a server call this."""
        self._services.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Does nothing; newer generated functions call this too."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """Returns the handler of a call."""
        return self._routes.get(details.method) or self._route(details)

    def _route(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        for service in self._services:
            handler = service.service(details)
            if handler is not None:
                route = _Stream if handler.response_streaming else _Unary
                make = (
                    grpc.stream_stream_rpc_method_handler if route is _Stream else grpc.stream_unary_rpc_method_handler
                )
                self._routes[details.method] = make(route(self, details.method, handler).answer)
                return self._routes[details.method]
        return self._unknown_method


class _Route(abc.ABC):
    """One method, which exchanges bytes with gRPC."""

    kind = ""

    def __init__(self, server: GrpcHandler, method: str, handler: Any):
        behavior = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
        self._behavior: Callable[..., Any] = behavior
        self._parse = handler.request_deserializer
        self._serialize = handler.response_serializer
        self._streamed = handler.request_streaming
        self._cost_of = getattr(behavior, "cost_of", None)
        self._method, self._workers, self._admission = method, server.workers, server.admission
        self._health = method.startswith(_HEALTH)
        self._telemetry = Telemetry() if self._health else server.telemetry
        self._read = (lambda context: context.read()) if method in server.may_idle else server.arrivals.read
        if self._health:
            self._read = server.idle_timeout.read

    async def answer(self, requests: object, context: Any) -> Any:
        """Answers one call, whose requests it reads one at a time with `context.read`, not from `requests`."""
        call = calls.Call() if self._health else self._arrive(context)
        try:
            if self._health:
                return await self._answer(call, context)
            await self._admission.enter(call)
            try:
                return await self._answer(call, context)
            finally:
                self._admission.leave(call)
        except grpc.aio.AbortError as aborted:  # by `IdleTimeout`, with a reason or because of silence
            if call.reason:
                self._telemetry.end(call, self.kind, grpc.StatusCode.RESOURCE_EXHAUSTED.name)
            else:
                self._record_cancelled(call, context)
            drop_traceback(aborted)
            return None
        except (asyncio.CancelledError, grpc.aio.BaseError):  # also of reading and writing, once the call has ended
            self._record_cancelled(call, context)
            raise
        except Exception as error:
            failure = error
        try:  # outside of the except clause: gRPC would log an error here with its context, which may have evidence
            return await self._fail(call, context, failure)
        finally:
            del failure  # it refers to this frame

    def _arrive(self, context: Any) -> calls.Call:
        """Returns a call that has just arrived, now the current one."""
        metadata, remaining = context.invocation_metadata(), context.time_remaining()
        deadline = None if remaining is None else time.monotonic() + remaining
        name = calls.request_id_of(metadata)
        call = calls.Call(calls.Request(self._method, name, metadata, context.peer(), deadline))
        calls.enter(call)
        self._telemetry.begin(call)
        return call

    @abc.abstractmethod
    async def _answer(self, call: calls.Call, context: Any) -> Any:
        """Answers an admitted call; what it raises ends the call with a status."""

    async def _arrived(self, call: calls.Call, context: Any) -> bytes:
        """Returns the single request of a call.

        Raises:
            InputError: it is missing.
        """
        data: Any = await self._read(context)
        if data is grpc.aio.EOF:
            raise InputError("the request is missing: send one message")
        call.add(calls.QUEUE, call.request.arrived, time.perf_counter())
        return data

    async def _parse_message(self, call: calls.Call, data: bytes) -> Any:
        """Returns the message in `data`; raises InputError if it cannot be parsed."""
        begin = time.perf_counter()
        if self._parse is None:
            message = data
        elif len(data) > LARGE_BYTES:
            message = await self._workers.run(parse_large, self._parse, data)
        else:
            message = parse(self._parse, data)
        call.add(calls.PARSE, begin, time.perf_counter())
        return message

    def _serialize_message(self, call: calls.Call, message: Any) -> bytes:
        begin = time.perf_counter()
        data: bytes = message if isinstance(message, bytes) else self._serialize(message)
        call.add(calls.RESPOND, begin, time.perf_counter())
        return data

    def _record_cancelled(self, call: calls.Call, context: Any) -> None:
        """Records a call that its caller or its deadline ended."""
        late = context.time_remaining() == 0
        code = grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED
        self._telemetry.end(call, self.kind, code.name)

    async def _fail(self, call: calls.Call, context: Any, error: Exception) -> None:
        """Ends a call with a status."""
        status, metadata = end_of(error, self._method.rpartition("/")[2])
        self._telemetry.end(call, self.kind, status.code.name)
        try:
            await self._admission.hold_back(call, error)
            await context.abort(status.code, status.message, metadata)
        except grpc.aio.BaseError as aborted:  # abort always raises, even if the caller has gone
            drop_traceback(aborted)


class _Unary(_Route):
    kind = "unary"

    def __init__(self, server: GrpcHandler, method: str, handler: Any):
        super().__init__(server, method, handler)
        self._is_coroutine = inspect.iscoroutinefunction(self._behavior)

    async def _answer(self, call: calls.Call, context: Any) -> bytes:
        data = await self._arrived(call, context)
        async with self._admission.turn(call, Cost(0, len(data))):
            request = await self._parse_message(call, data)
            if self._cost_of is None or call.large:
                return await self._respond(call, context, request)
            async with self._admission.turn(call, self._cost_of(request)):
                return await self._respond(call, context, request)

    async def _respond(self, call: calls.Call, context: Any, request: Any) -> bytes:
        if self._is_coroutine:
            response = await self._behavior(request, context)
        else:
            response = await self._workers.run(self._behavior, request, context)
        if call.large:
            data = await self._workers.run(self._serialize_message, call, response)
        else:
            data = self._serialize_message(call, response)
        context.set_trailing_metadata(call.request.id_metadata)
        if len(data) > _SMALL_BYTES:
            unread, cost = self._admission.unread, Cost(0, len(data))
            self._admission.check_unread(call.caller)  # again: many calls may enter before the first is answered
            unread.add(call.caller, cost)
            context.add_done_callback(lambda _: unread.remove(call.caller, cost))
        self._telemetry.record_stages(call)
        self._telemetry.end(call, self.kind, grpc.StatusCode.OK.name)
        return data


class _Stream(_Route):
    kind = "bidi_stream"

    async def _answer(self, call: calls.Call, context: Any) -> None:
        if self._streamed:
            call.add(calls.QUEUE, call.request.arrived, time.perf_counter())
            requests = self._requests(call, context)
        else:
            requests = await self._parse_message(call, await self._arrived(call, context))
        context.set_trailing_metadata(call.request.id_metadata)
        async with contextlib.aclosing(self._behavior(requests, context)) as responses:
            async for response in responses:
                data = self._serialize_message(call, response)
                self._telemetry.record_stages(call)  # before sending, as for a single answer
                await context.write(data)
        self._telemetry.end(call, self.kind, grpc.StatusCode.OK.name)

    async def _requests(self, call: calls.Call, context: Any) -> AsyncIterator[Any]:
        while (data := await self._read(context)) is not grpc.aio.EOF:
            async with self._admission.turn(call, Cost(0, len(data))):
                message = await self._parse_message(call, data)
            yield message
        # The requests of a cancelled call end as well, just before the cancellation arrives.
        await asyncio.sleep(_CANCEL_SECONDS)


def _no_such_method() -> grpc.RpcMethodHandler:
    async def refuse(request: Any, context: Any) -> NoReturn:
        raise UnsupportedError("there is no such method: the reflection service lists all methods")

    return grpc.unary_unary_rpc_method_handler(refuse)

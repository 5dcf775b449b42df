"""Takes each call: gives it an id, lets it in or not, reads its request, has it answered, and tells how it ended.

Towards the wire all calls are streams, and gRPC is told that these are: it then hands a call over when its headers
are there. So a caller that sends nothing more is known, holds a place, and can be cut off. All of this runs on one
event loop, which no call may hold up: what takes long goes to the workers.
"""

import abc
import asyncio
import contextlib
import dataclasses
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, NoReturn

import grpc
from google.protobuf import message
from grpc_health.v1 import health

from schemas.errors import InputError
from serving import call as calls
from serving.calls.capacity import Places
from serving.calls.event_loop import Workers
from serving.calls.silence import Silence, let_go
from serving.calls.status import end_of
from serving.errors import UnsupportedError
from serving.security.access import Access, OpenAccess
from serving.telemetry.recorder import Telemetry

LARGE_BYTES = 16 * 1024
"""Length of a request from which on workers see to it: what is shorter takes less time than to hand it over."""

_HEALTH = f"/{health.SERVICE_NAME}/"
_UNKNOWN = "/unknown/unknown"
_WORD_SECONDS = 0.005


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a server bears.

    Attributes:
        places: number of calls that it holds.
        silence_seconds: see `serving.calls.silence.Silence`.
        may_be_silent: methods whose callers may say nothing for as long as they like.
    """

    places: int
    silence_seconds: float
    may_be_silent: frozenset[str] = frozenset()


class Front(grpc.GenericRpcHandler):
    """Answers calls by the servicers that are added to it, as to a `grpc.Server`.

    A method that is a coroutine or an asynchronous generator runs on the event loop, any other one in a worker. They
    raise, and never abort. Health is answered whatever the limits and the access are, and is not observed.

    Args:
        limits: how many calls are held, and how long silent ones.
        workers: threads for what takes long.
        telemetry: is told each call.
        access: who may call what.
    """

    def __init__(
        self,
        limits: Limits,
        workers: Workers,
        telemetry: Telemetry | None = None,
        access: Access | None = None,
    ):
        self.workers = workers
        self.telemetry = telemetry or Telemetry()
        self.access = access or OpenAccess()
        self.places = Places(limits.places)
        self.silence = Silence(limits.silence_seconds)
        self.may_be_silent = limits.may_be_silent
        self._services: list[grpc.GenericRpcHandler] = []
        self._routes: dict[str, grpc.RpcMethodHandler] = {}
        self._unknown_method = grpc.stream_unary_rpc_method_handler(_Unary(self, _UNKNOWN, _no_such_method()).answer)

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Adds services, for the generated functions that add a servicer to a server."""
        self._services.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Does nothing: what newer generated functions call besides."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """Returns what answers a call. gRPC calls this in the context in which it then has the call answered."""
        method = details.method
        handler = self._routes.get(method) or self._route(details)
        if handler is self._unknown_method:
            method = _UNKNOWN  # that name is the caller's
        if not method.startswith(_HEALTH):
            call = calls.Call(method, calls.request_id_of(details.invocation_metadata))
            calls.enter(call)
            self.telemetry.begin(call, details.invocation_metadata)
        return handler

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
    """One method. gRPC hands it bytes, and gets bytes from it."""

    kind = ""

    def __init__(self, front: Front, method: str, handler: Any):
        behavior = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
        self._behavior: Callable[..., Any] = behavior
        self._parse = handler.request_deserializer
        self._serialize = handler.response_serializer
        self._streamed = handler.request_streaming
        self._method, self._workers, self._places = method, front.workers, front.places
        self._health = method.startswith(_HEALTH)
        self._telemetry = Telemetry() if self._health else front.telemetry
        self._access = front.access
        self._read = _read_without_limit if method in front.may_be_silent else front.silence.read

    async def answer(self, requests: object, context: Any) -> Any:
        """Answers one call; gRPC's iterator of requests is left alone for `context.read`, which waits for no more."""
        call, taken = calls.current(), False
        try:
            if not self._health:
                self._access.check(self._method, context)
                self._places.take()
                taken = True
            return await self._answer(call, context)
        except grpc.aio.AbortError as aborted:  # by `serving.calls.silence`
            self._gone(call, context)
            let_go(aborted)
            return None
        except (asyncio.CancelledError, grpc.aio.BaseError):  # also of reading and writing, when the call has ended
            self._gone(call, context)
            raise
        except Exception as error:
            failure = error
        finally:
            if taken:
                self._places.leave()
        try:  # not where it was caught: gRPC would log an error in here with what came before, which may hold evidence
            return await self._fail(call, context, failure)
        finally:
            del failure  # which holds this frame

    @abc.abstractmethod
    async def _answer(self, call: calls.Call, context: Any) -> Any:
        """Answers a call that has been let in; what it raises ends the call with a status."""

    async def _request(self, call: calls.Call, context: Any) -> Any:
        """Returns the only request of a call.

        Raises:
            InputError: it cannot be parsed, or there is none.
        """
        data = await self._read(context)
        if data is grpc.aio.EOF:
            raise InputError("the request is missing: send one message")
        begin = time.perf_counter()
        call.add(calls.QUEUE, call.arrived, begin)
        call.request_bytes = len(data)
        message = await self._parse_message(data)
        call.add(calls.PARSE, begin, time.perf_counter())
        return message

    async def _parse_message(self, data: bytes) -> Any:
        if self._parse is None:
            return data
        if len(data) > LARGE_BYTES:
            return await self._workers.run(parse, self._parse, data)
        return parse(self._parse, data)

    def _serialize_message(self, call: calls.Call, message: Any) -> bytes:
        begin = time.perf_counter()
        data: bytes = self._serialize(message) if self._serialize else message
        call.add(calls.RESPOND, begin, time.perf_counter())
        return data

    def _gone(self, call: calls.Call, context: Any) -> None:
        """Tells the end of a call that its caller ended, or its deadline."""
        late = context.time_remaining() == 0
        code = grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED
        self._telemetry.end(call, self.kind, code.name)

    async def _fail(self, call: calls.Call, context: Any, error: Exception) -> None:
        """Ends a call with a status."""
        status, metadata = end_of(error, self._method.rpartition("/")[2])
        self._telemetry.end(call, self.kind, status.code.name)
        try:
            await context.abort(status.code, status.message, metadata)
        except grpc.aio.BaseError as aborted:  # always, also where the caller is gone
            let_go(aborted)


class _Unary(_Route):
    kind = "unary"

    def __init__(self, front: Front, method: str, handler: Any):
        super().__init__(front, method, handler)
        self._is_coroutine = inspect.iscoroutinefunction(self._behavior)

    async def _answer(self, call: calls.Call, context: Any) -> bytes:
        request = await self._request(call, context)
        if self._is_coroutine:
            response = await self._behavior(request, context)
        else:
            response = await self._workers.run(self._behavior, request, context)
        if call.request_bytes > LARGE_BYTES:
            data = await self._workers.run(self._serialize_message, call, response)
        else:
            data = self._serialize_message(call, response)
        context.set_trailing_metadata(call.named)
        self._telemetry.record_stages(call)
        self._telemetry.end(call, self.kind, grpc.StatusCode.OK.name)
        return data


class _Stream(_Route):
    kind = "bidi_stream"

    async def _answer(self, call: calls.Call, context: Any) -> None:
        if self._streamed:
            call.add(calls.QUEUE, call.arrived, time.perf_counter())
            requests = self._requests(call, context)
        else:
            requests = await self._request(call, context)
        context.set_trailing_metadata(call.named)
        async with contextlib.aclosing(self._behavior(requests, context)) as responses:
            async for response in responses:
                await context.write(self._serialize_message(call, response))
                self._telemetry.record_stages(call)
        self._telemetry.end(call, self.kind, grpc.StatusCode.OK.name)

    async def _requests(self, call: calls.Call, context: Any) -> AsyncIterator[Any]:
        while (data := await self._read(context)) is not grpc.aio.EOF:
            begin = time.perf_counter()
            message = await self._parse_message(data)
            call.add(calls.PARSE, begin, time.perf_counter())
            yield message
        # Of a call that is cancelled the requests end too, just before word of it comes.
        await asyncio.sleep(_WORD_SECONDS)


async def _read_without_limit(context: Any) -> Any:
    return await context.read()


def _no_such_method() -> grpc.RpcMethodHandler:
    async def refuse(request: Any, context: Any) -> NoReturn:
        raise UnsupportedError("there is no such method")

    return grpc.unary_unary_rpc_method_handler(refuse)


def parse(deserializer: Callable[[bytes], Any], data: bytes) -> Any:
    """Returns the message that `data` is.

    Raises:
        InputError: it is none.
    """
    try:
        return deserializer(data)
    except message.DecodeError as error:
        raise InputError(
            "the request cannot be parsed: send a message of this call's type, as the .proto files have it"
        ) from error

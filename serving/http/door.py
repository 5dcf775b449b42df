"""Receives HTTP requests as `serving.calls.front` receives calls: with an id, access, places, turns and telemetry."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import grpc
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from serving import call as calls
from serving.calls import CLOSING, LARGE_BYTES, Budget, Cost, Front
from serving.config import ServeConfig
from serving.errors import DeadlineError, ExhaustedError, UnavailableError
from serving.http.problems import BodyError, problem_of

_UNLIMITED = 2**31
JSON = "application/json"


class HttpContext:
    """What services ask of a gRPC context, for an HTTP request."""

    def __init__(self, request: Request):
        self._request = request

    def time_remaining(self) -> float | None:
        """Returns None: HTTP requests have no deadline."""
        return None

    def invocation_metadata(self) -> list[tuple[str, str]]:
        """Returns the headers, with names in lower case."""
        return self._request.headers.items()

    def peer(self) -> str:
        """Returns the address of the other end, as gRPC writes it."""
        client = self._request.client
        if client is None:
            return "unknown"
        return f"ipv6:[{client.host}]:{client.port}" if ":" in client.host else f"ipv4:{client.host}:{client.port}"


class Exchange:
    """One request while it is answered.

    Attributes:
        request: the HTTP request.
        context: as services expect it.
        raw: its body.
    """

    def __init__(self, request: Request):
        self.request = request
        self.context = HttpContext(request)
        self.raw = b""


Handler = Callable[[Exchange], Any]
"""Answers an exchange with something that JSON can hold, or a Response; coroutines run on the event loop."""


class Door:
    """Lets HTTP requests in.

    Args:
        front: whose places, turns, access, workers and telemetry HTTP requests share with gRPC calls.
        config: limits.
    """

    def __init__(self, front: Front, config: ServeConfig):
        self.front = front
        self._config = config
        pending = Cost(_UNLIMITED, config.max_pending_bytes)
        self._arriving = Budget(pending, turns=_UNLIMITED)  # bodies that are being read

    def route(
        self, name: str, handler: Handler, cost_of: Callable[[Any], Cost] | None = None
    ) -> Callable[[Request], Any]:
        """Returns an endpoint.

        Args:
            name: the method in metrics, logs and traces.
            handler: answers.
            cost_of: tells from the request what a request below `LARGE_BYTES` costs, if it may be large all the same.
        """
        method, is_coroutine = f"/http/{name}", inspect.iscoroutinefunction(handler)

        async def endpoint(request: Request) -> Response:
            call = calls.Call(method, calls.request_id_of(request.headers.items()))
            calls.enter(call)
            self.front.telemetry.begin(call, request.headers.items())
            try:
                response = await self._admit(call, Exchange(request), handler, is_coroutine, cost_of)
                code = grpc.StatusCode.OK.name
            except (asyncio.CancelledError, ClientDisconnect):
                self.front.telemetry.end(call, "unary", grpc.StatusCode.CANCELLED.name)
                raise
            except Exception as error:
                response, code = problem_of(error, name)
                if isinstance(error, ExhaustedError) and error.hold_seconds:
                    error.__traceback__ = None  # it holds the request
                    await asyncio.sleep(error.hold_seconds)
            for key, value in call.id_metadata:
                response.headers[key] = value
            self.front.telemetry.record_stages(call)
            self.front.telemetry.end(call, "unary", code)
            return response

        return endpoint

    async def _admit(
        self, call: calls.Call, exchange: Exchange, handler: Handler, is_coroutine: bool, cost_of: Any
    ) -> Response:
        front, context = self.front, exchange.context
        call.peer = context.peer()
        if front.closing.begun:
            raise UnavailableError(CLOSING)
        call.caller = front.access.check(call.method, context)
        front.places.take(call.caller)
        try:
            exchange.raw = await self._read(call, exchange.request)
            cost = Cost(0, len(exchange.raw))
            if not cost.is_large and cost_of is not None:
                cost = cost_of(exchange)
            if not cost.is_large:
                return await self._respond(call, exchange, handler, is_coroutine)
            async with front.budget.turn(call, cost):
                return await self._respond(call, exchange, handler, is_coroutine)
        finally:
            front.places.leave(call.caller)

    async def _respond(self, call: calls.Call, exchange: Exchange, handler: Handler, is_coroutine: bool) -> Response:
        answer = await (handler(exchange) if is_coroutine else self.front.workers.run(handler, exchange))
        if isinstance(answer, Response):
            return answer
        with call.timed(calls.RESPOND):
            return await self.front.workers.run(json_response, answer) if call.large else json_response(answer)

    async def _read(self, call: calls.Call, request: Request) -> bytes:
        """Returns the body.

        Raises:
            BodyError: it is too large, or is large and does not say how large.
            ExhaustedError: too many large bodies are arriving.
            DeadlineError: it does not arrive.
        """
        if request.method in ("GET", "HEAD"):
            return b""
        length = request.headers.get("content-length")
        size = int(length) if length is not None and length.isascii() and length.isdecimal() else None
        if size is not None and size > self._config.max_message_bytes:
            raise BodyError(413, f"a body of {size} bytes: the server takes at most {self._config.max_message_bytes}")
        if size is None or size <= LARGE_BYTES:
            return await self._receive(request, LARGE_BYTES)
        async with self._arriving.turn(call, Cost(0, size)):
            body = await self._receive(request, size)
        call.stages.clear()
        return body

    async def _receive(self, request: Request, limit: int) -> bytes:
        async def receive() -> bytes:
            parts, size = [], 0
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > limit:
                    raise BodyError(411, f"a body above {limit} bytes needs the header Content-Length")
            return b"".join(parts)

        try:
            return await asyncio.wait_for(receive(), self._config.silence_seconds)
        except asyncio.TimeoutError:
            raise DeadlineError("the body did not arrive") from None


def json_response(answer: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Returns an answer as JSON."""
    return Response(msgspec.json.encode(answer), 200, headers, JSON)

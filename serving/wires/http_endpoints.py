"""Receives HTTP requests as `serving.admission.grpc_handler` receives calls: with an id, admission and telemetry."""

import asyncio
import contextlib
import dataclasses
import inspect
import io
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from serving import call as calls
from serving.admission import (
    LARGE_ARRIVAL_BYTES,
    LARGE_BYTES,
    MOMENT_SECONDS,
    MOST_AMONG_LARGE,
    Admission,
    Budget,
    Cost,
    Workers,
)
from serving.config.settings import ServeConfig
from serving.errors import DeadlineError
from serving.telemetry import Telemetry
from serving.wires.http_problems import BodyError, problem_of

_UNLIMITED = 2**31
JSON = "application/json"


@dataclasses.dataclass
class Exchange:
    """One request while it is answered."""

    request: Request
    raw: bytes = b""
    """Its body."""


Handler = Callable[[Exchange], Any]
"""Answers an exchange with something that JSON can hold, or a Response; coroutines run on the event loop."""


class Endpoints:
    """Makes the endpoints of HTTP requests."""

    def __init__(self, admission: Admission, workers: Workers, telemetry: Telemetry, config: ServeConfig):
        self._admission, self._workers, self._telemetry, self._config = admission, workers, telemetry, config
        pending = Cost(_UNLIMITED, config.max_pending_bytes)
        self._arriving = Budget(pending, _UNLIMITED, admission.pace)  # bodies that are being read
        self._places = asyncio.Semaphore(MOST_AMONG_LARGE)  # of large ones

    def route(
        self,
        name: str,
        handler: Handler,
        cost_of: Callable[[Any], Cost] | None = None,
        failure_of: Callable[[Exception, str], tuple[Response, str]] = problem_of,
    ) -> Callable[[Request], Any]:
        """Returns an endpoint.

        Args:
            name: the method in metrics, logs and traces.
            handler: answers.
            cost_of: tells from the request what a request below `LARGE_BYTES` costs, if it may be large all the same.
            failure_of: makes the response to a failure, and the name of its gRPC status.
        """
        method, is_coroutine = f"/http/{name}", inspect.iscoroutinefunction(handler)

        async def endpoint(request: Request) -> Response:
            headers = request.headers.items()
            call = calls.Call(calls.Request(method, calls.request_id_of(headers), headers, _peer(request)))
            calls.enter(call)
            self._telemetry.begin(call)
            try:
                response = await self._admit(call, Exchange(request), handler, is_coroutine, cost_of)
                code = grpc.StatusCode.OK.name
            except (asyncio.CancelledError, ClientDisconnect):
                self._telemetry.end(call, "unary", grpc.StatusCode.CANCELLED.name)
                raise
            except Exception as error:
                response, code = failure_of(error, name)
                await self._admission.hold_back(call, error)
            for key, value in call.request.id_metadata:
                response.headers[key] = value
            self._telemetry.record_stages(call)
            self._telemetry.end(call, "unary", code)
            return response

        return endpoint

    async def _admit(
        self, call: calls.Call, exchange: Exchange, handler: Handler, is_coroutine: bool, cost_of: Any
    ) -> Response:
        await self._admission.enter(call)
        try:
            exchange.raw = await self._read(call, exchange.request)
            cost = Cost(0, len(exchange.raw))
            if not cost.is_large and cost_of is not None:
                cost = cost_of(exchange)
            async with self._admission.turn(call, cost):
                return await self._respond(call, exchange, handler, is_coroutine)
        finally:
            self._admission.leave(call)

    async def _respond(self, call: calls.Call, exchange: Exchange, handler: Handler, is_coroutine: bool) -> Response:
        answer = await (handler(exchange) if is_coroutine else self._workers.run(handler, exchange))
        if isinstance(answer, Response):
            return answer
        with call.timed(calls.RESPOND):
            return await self._workers.run(json_response, answer) if call.large else json_response(answer)

    async def _read(self, call: calls.Call, request: Request) -> bytes:
        """Returns the body.

        Raises:
            BodyError: it is too large, or is large and does not say how large, or is compressed.
            ExhaustedError: too many large bodies are arriving.
            DeadlineError: it does not arrive.
        """
        if request.method in ("GET", "HEAD"):
            return b""
        if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise BodyError(415, "a compressed body: send it as it is, without the header Content-Encoding")
        length = request.headers.get("content-length")
        size = int(length) if length is not None and length.isascii() and length.isdecimal() else None
        if size is not None and size > self._config.max_message_bytes:
            raise BodyError(413, f"a body of {size} bytes: the server takes at most {self._config.max_message_bytes}")
        if size is None or size <= LARGE_BYTES:
            return await self._receive(request, LARGE_BYTES)
        place = self._place() if size >= LARGE_ARRIVAL_BYTES else contextlib.nullcontext()
        async with self._arriving.turn(call, Cost(0, size)), place:
            body = await self._receive(request, size)
        call.stages.clear()
        return body

    @contextlib.asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Holds a place for the length of a block, or for a moment, so that nobody waits for those who send slowly.

        Each part of a body that arrives keeps small calls waiting, and uvicorn reads no more of one than is asked for.
        """
        await self._places.acquire()
        with contextlib.ExitStack() as place:
            place.callback(self._places.release)
            timer = asyncio.get_running_loop().call_later(MOMENT_SECONDS, place.close)
            place.callback(timer.cancel)
            yield

    async def _receive(self, request: Request, limit: int) -> bytes:
        async def receive() -> bytes:
            body = io.BytesIO()  # which grows without one long copy, and hands over what it has without another
            async for part in request.stream():
                if body.write(part) and body.tell() > limit:
                    raise BodyError(411, f"a body above {limit} bytes needs the header Content-Length")
            return body.getvalue()

        try:
            return await asyncio.wait_for(receive(), self._config.silence_seconds)
        except asyncio.TimeoutError:
            raise DeadlineError("the body did not arrive") from None


def json_response(answer: Any) -> Response:
    """Returns an answer as JSON."""
    return Response(msgspec.json.encode(answer), media_type=JSON)


def _peer(request: Request) -> str:
    """Returns the address of the other end, as gRPC writes it."""
    client = request.client
    if client is None:
        return "unknown"
    return f"ipv6:[{client.host}]:{client.port}" if ":" in client.host else f"ipv4:{client.host}:{client.port}"

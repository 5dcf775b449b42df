"""How many calls the server holds: further ones are refused at once, but health is always told."""

import concurrent.futures
import contextvars
import functools
import threading
from collections.abc import Callable
from typing import Any

import grpc
from grpc_health.v1 import health

from serving.errors import ExhaustedError
from serving.status import refusal

REFUSALS = 4096
"""Calls whose refusal may be under way at a time; beyond that gRPC itself refuses, health checks too."""

_HEALTH = f"/{health.SERVICE_NAME}/"


class Workers(concurrent.futures.ThreadPoolExecutor):
    """Threads for calls, which know which calls they have begun, or are still to begin.

    Args:
        threads: how many there are.
        name: that of the threads.
        left: what to run in the context of each call when its thread has left it.
    """

    def __init__(self, threads: int, name: str = "triage", left: Callable[[], None] | None = None):
        super().__init__(threads, thread_name_prefix=name)
        self._left = left
        self._begun_lock = threading.Lock()
        self._begun: dict[concurrent.futures.Future[Any], tuple[Any, ...]] = {}

    @property
    def calls(self) -> int:
        """The number of calls that are running or wait for a thread."""
        return len(self._begun)

    @property
    def under_way(self) -> dict["concurrent.futures.Future[Any]", tuple[Any, ...]]:
        """The same calls with what gRPC has them begun with."""
        with self._begun_lock:
            return dict(self._begun)

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> "concurrent.futures.Future[Any]":
        """Has a thread run a call when one is free."""
        future = super().submit(function, *arguments, **named)
        with self._begun_lock:
            self._begun[future] = arguments
        # gRPC runs a call in a context of its own, where its interceptors ran too. setup.py pins the release.
        future.add_done_callback(functools.partial(self._ended, getattr(function, "__self__", None)))
        return future

    def _ended(self, context: Any, future: "concurrent.futures.Future[Any]") -> None:
        with self._begun_lock:
            del self._begun[future]
        if self._left is not None and isinstance(context, contextvars.Context):
            context.run(self._left)


class CapacityInterceptor(grpc.ServerInterceptor):
    """Refuses calls beyond the places, and answers health checks from threads of their own.

    gRPC asks interceptors, and hands a call to its threads, in one thread, so that no call slips in between.

    Args:
        workers: the threads of the server.
        places: number of calls that may run or wait for a thread.
    """

    def __init__(self, workers: Workers, places: int):
        self._workers = workers
        self._places = places
        # Not the workers: they are what is busy when it matters.
        self.aside = Workers(2, "aside")

    def intercept_service(self, continuation: Callable[..., Any], details: grpc.HandlerCallDetails) -> Any:
        """Hands the call on, or answers it with its refusal."""
        if details.method.startswith(_HEALTH):
            return self._moved_aside(continuation(details))
        if self._workers.calls < self._places:
            return continuation(details)
        error = ExhaustedError(f"{self._places} calls are running or waiting, more are not taken: try again later")
        return self._moved_aside(refusal(error))

    def close(self) -> None:
        """Lets its threads end."""
        self.aside.shutdown(wait=False)

    def _moved_aside(self, handler: Any) -> Any:
        """Returns a handler that runs in threads where no call waits; None where there is none."""
        if handler is None:
            return None
        behavior = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream

        def moved(*arguments: Any) -> Any:
            return behavior(*arguments)

        # By these gRPC chooses the threads, and gives Health.Watch no thread to keep. setup.py pins the release.
        moved.experimental_thread_pool = self.aside  # type: ignore[attr-defined]
        moved.experimental_non_blocking = getattr(behavior, "experimental_non_blocking", False)  # type: ignore[attr-defined]
        return rewrapped(handler, moved)


def rewrapped(
    handler: Any,
    behavior: Callable[..., Any],
    deserializer: Callable[[bytes], Any] | None = None,
    serializer: Callable[[Any], bytes] | None = None,
) -> grpc.RpcMethodHandler:
    """Returns a handler of the same kind with another behaviour, and other serializers where they are given."""
    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    return make(behavior, deserializer or handler.request_deserializer, serializer or handler.response_serializer)

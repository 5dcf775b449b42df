"""Which gRPC status an exception becomes: the one table of it."""

import functools
import logging
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grpc
import tensorflow as tf

from schemas.errors import InputError
from serving.errors import (
    DeadlineError,
    EngineError,
    ExhaustedError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
    UnsupportedError,
)

_LOGGER = logging.getLogger(__name__)
_Response = TypeVar("_Response")

# Without a message of its own, an exception speaks for itself.
_STATUSES: tuple[tuple[type[Exception], grpc.StatusCode, str | None], ...] = (
    (InputError, grpc.StatusCode.INVALID_ARGUMENT, None),
    (NotFoundError, grpc.StatusCode.NOT_FOUND, None),
    (PreconditionError, grpc.StatusCode.FAILED_PRECONDITION, None),
    (UnsupportedError, grpc.StatusCode.UNIMPLEMENTED, None),
    (UnavailableError, grpc.StatusCode.UNAVAILABLE, None),
    (DeadlineError, grpc.StatusCode.DEADLINE_EXCEEDED, None),
    (ExhaustedError, grpc.StatusCode.RESOURCE_EXHAUSTED, None),
    (EngineError, grpc.StatusCode.INTERNAL, None),
    (tf.errors.DataLossError, grpc.StatusCode.DATA_LOSS, "a serialized message in a tensor cannot be parsed"),
    (
        tf.errors.ResourceExhaustedError,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "out of memory: send fewer states in a call",
    ),
    (MemoryError, grpc.StatusCode.RESOURCE_EXHAUSTED, "out of memory: send fewer states in a call"),
)
_UNEXPECTED = (grpc.StatusCode.INTERNAL, "the server failed to answer; its log tells why")

# The message travels in an HTTP/2 header, which clients by default limit to 8 KiB; percent-encoding triples a byte.
_MAX_MESSAGE_BYTES = 2048


def status_of(error: Exception) -> tuple[grpc.StatusCode, str]:
    """Returns the status code and message for a client; an unexpected error's own message is kept from it."""
    for kind, code, message in _STATUSES:
        if isinstance(error, kind):
            return code, _shortened(str(error) if message is None else message)
    return _UNEXPECTED


def reported(method: Callable[..., _Response]) -> Callable[..., _Response]:
    """Wraps a servicer's method `(self, request, context)` so that any exception ends the call with its status.

    An unexpected one is logged by its type and stack. Its message is not: it may hold a patient's evidence.
    """

    @functools.wraps(method)
    def wrapper(servicer: Any, request: Any, context: grpc.ServicerContext) -> _Response:
        try:
            return method(servicer, request, context)
        except Exception as error:
            _end(context, error, method.__name__)
            raise  # _end raises already, which its types do not tell

    return wrapper


def reported_stream(method: Callable[..., Iterator[_Response]]) -> Callable[..., Iterator[_Response]]:
    """Wraps a servicer's method `(self, requests, context)` that takes and returns a stream, as `reported`.

    A caller that goes away, or whose deadline passes, ends the call without a word in the log.
    """

    @functools.wraps(method)
    def wrapper(servicer: Any, requests: Any, context: grpc.ServicerContext) -> Iterator[_Response]:
        try:
            yield from method(servicer, requests, context)
        except Exception as error:
            if context.is_active() or not isinstance(error, grpc.RpcError):
                _end(context, error, method.__name__)

    return wrapper


def _end(context: grpc.ServicerContext, error: Exception, method: str) -> None:
    code, message = status_of(error)
    if (code, message) == _UNEXPECTED:
        stack = "".join(traceback.format_tb(error.__traceback__))
        _LOGGER.error("%s: unexpected %s:\n%s", method, type(error).__qualname__, stack)
    context.abort(code, message)


def _shortened(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _MAX_MESSAGE_BYTES:
        return message
    return encoded[: _MAX_MESSAGE_BYTES - 4].decode(errors="ignore") + " ..."

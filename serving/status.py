"""Which gRPC status an exception becomes: the one table of it."""

import functools
import logging
import traceback
from typing import NamedTuple

import grpc

from schemas.errors import InputError
from serving import call as calls
from serving.error_details import KEY, details_of
from serving.errors import (
    UNKNOWN_CODE,
    DeadlineError,
    EngineError,
    ExhaustedError,
    FaultyRequestError,
    ForbiddenError,
    NotFoundError,
    PreconditionError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedError,
)

_LOGGER = logging.getLogger(__name__)

Metadata = tuple[tuple[str, str | bytes], ...]
_RETRY_SECONDS = 1.0
"""When a call may be tried again that could not be answered for now."""


class Status(NamedTuple):
    """How a call ends that failed."""

    code: grpc.StatusCode
    message: str
    reason: str  # for programs, in google.rpc.ErrorInfo
    retry_seconds: float | None  # in google.rpc.RetryInfo, None where trying again is no use


class _Row(NamedTuple):
    kind: type[Exception]
    code: grpc.StatusCode
    reason: str
    retry_seconds: float | None = None
    message: str | None = None  # without one, the exception speaks for itself


_MEMORY = "out of memory: send fewer states in a call"
_UNEXPECTED = Status(grpc.StatusCode.INTERNAL, "the server failed to answer; its log tells why", "INTERNAL", None)


@functools.cache
def _table() -> tuple[_Row, ...]:
    import tensorflow as tf  # here, for a command line that is not to wait for it

    code = grpc.StatusCode
    return (
        _Row(InputError, code.INVALID_ARGUMENT, "INVALID_REQUEST"),
        _Row(UnauthenticatedError, code.UNAUTHENTICATED, "TOKEN_REFUSED"),
        _Row(ForbiddenError, code.PERMISSION_DENIED, "NOT_ALLOWED"),
        _Row(NotFoundError, code.NOT_FOUND, "NOT_SERVED"),
        _Row(PreconditionError, code.FAILED_PRECONDITION, "NOT_IN_THIS_STATE"),
        _Row(UnsupportedError, code.UNIMPLEMENTED, "NOT_OFFERED"),
        _Row(UnavailableError, code.UNAVAILABLE, "NOT_READY", _RETRY_SECONDS),
        _Row(DeadlineError, code.DEADLINE_EXCEEDED, "TOO_LATE"),
        _Row(ExhaustedError, code.RESOURCE_EXHAUSTED, "OVERLOADED", _RETRY_SECONDS),
        _Row(EngineError, code.INTERNAL, "ENGINE_FAILED"),
        _Row(
            tf.errors.DataLossError,
            code.DATA_LOSS,
            "MALFORMED_MESSAGE",
            message="a serialized message in a tensor cannot be parsed",
        ),
        _Row(tf.errors.ResourceExhaustedError, code.RESOURCE_EXHAUSTED, "OUT_OF_MEMORY", _RETRY_SECONDS, _MEMORY),
        _Row(MemoryError, code.RESOURCE_EXHAUSTED, "OUT_OF_MEMORY", _RETRY_SECONDS, _MEMORY),
    )


# Message and details travel in HTTP/2 headers, which clients limit to 8 KiB; percent-encoding triples a byte.
_MAX_MESSAGE_BYTES = 1024


def status_of(error: Exception) -> Status:
    """Returns how `error` ends a call; an unexpected error's own message is kept from the client."""
    for row in _table():
        if isinstance(error, row.kind):
            message = _shortened(str(error) if row.message is None else row.message)
            return Status(row.code, message, row.reason, row.retry_seconds)
    return _UNEXPECTED


def failed(error: Exception, method: str) -> tuple[Status, Metadata]:
    """Returns how `error` ends the current call, and the metadata that tell it.

    An unexpected error is logged by its type and stack. Its message is not: it may hold a patient's evidence.
    """
    status = status_of(error)
    if status == _UNEXPECTED:
        stack = "".join(traceback.format_tb(error.__traceback__))
        _LOGGER.error("%s: unexpected %s:\n%s", method, type(error).__qualname__, stack)
    details = details_of(status.code.value[0], status.message, status.reason, status.retry_seconds, error)
    call = calls.current()
    call.reason = status.reason
    if isinstance(error, FaultyRequestError):
        call.unknown_codes = sum(fault.reason == UNKNOWN_CODE for fault in error.faults)
    return status, (*call.named, (KEY, details))


def _shortened(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _MAX_MESSAGE_BYTES:
        return message
    return encoded[: _MAX_MESSAGE_BYTES - 4].decode(errors="ignore") + " ..."

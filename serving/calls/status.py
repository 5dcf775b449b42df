"""Which gRPC status an exception becomes: the one table of it."""

import functools
import logging
import traceback
from typing import NamedTuple

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from schemas.errors import InputError
from serving import call as calls
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
from triage.v1 import triage_service_pb2

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
            message = _shorten(str(error) if row.message is None else row.message)
            return Status(row.code, message, row.reason, row.retry_seconds)
    return _UNEXPECTED


def end_of(error: Exception, method: str) -> tuple[Status, Metadata]:
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


def _shorten(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _MAX_MESSAGE_BYTES:
        return message
    return encoded[: _MAX_MESSAGE_BYTES - 4].decode(errors="ignore") + " ..."


KEY = "grpc-status-details-bin"
"""The metadata key under which gRPC's libraries look for the details."""

DOMAIN = "triage.v1"
"""What the reasons belong to."""

MAX_BYTES = 3072
"""The longest details: base64 makes them a third longer, and headers of more than 8 KiB do not arrive."""


def details_of(code: int, message: str, reason: str, retry_seconds: float | None, error: Exception) -> bytes:
    """Returns a serialized google.rpc.Status of at most `MAX_BYTES` beyond its message.

    It holds an ErrorInfo with `reason`, a RetryInfo where a later call may succeed, and of a faulty request a
    BadRequest and an UnknownCode for each unknown code, as far as there is room.

    Args:
        code: number of the gRPC status.
        message: the call's message, which must be the same here.
        reason: the reason of the table in `serving.calls.status`.
        retry_seconds: when to try again, None for never.
        error: what ended the call.
    """
    status = status_pb2.Status(code=code, message=message)
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN)]
    if retry_seconds is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(round(retry_seconds * 1000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    status.details.extend(map(_pack, details))
    if isinstance(error, FaultyRequestError):
        room = MAX_BYTES - sum(detail.ByteSize() for detail in status.details)
        status.details.extend(_fault_details(error, room))
    return status.SerializeToString()


def _fault_details(error: FaultyRequestError, room: int) -> list[any_pb2.Any]:
    """Returns a BadRequest and UnknownCodes of about `room` bytes at most: of many faults, the first ones."""
    bad_request = error_details_pb2.BadRequest()
    unknown: list[any_pb2.Any] = []
    room -= 128  # for the names of types, and the lengths of what is nested
    for fault in error.faults:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=fault.field, description=fault.description, reason=fault.reason
        )
        size = violation.ByteSize() + 8
        code = None
        if fault.code:
            code = _pack(
                triage_service_pb2.UnknownCode(field=fault.field, code=fault.code, nearest_codes=fault.nearest)
            )
            size += code.ByteSize() + 8
        if size > room:
            break
        room -= size
        bad_request.field_violations.append(violation)
        if code is not None:
            unknown.append(code)
    return [_pack(bad_request), *unknown] if bad_request.field_violations else []


def _pack(message: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed

"""The table of gRPC statuses that exceptions become."""

import functools
import logging
import sys
import traceback
from collections.abc import Sequence
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
    Fault,
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
"""When to try again after a temporary failure."""


class Status(NamedTuple):
    """How a failed call ends."""

    code: grpc.StatusCode
    message: str
    reason: str  # for programs, in google.rpc.ErrorInfo
    retry_seconds: float | None  # in google.rpc.RetryInfo, None if trying again is no use


class _Row(NamedTuple):
    kind: type[Exception]
    code: grpc.StatusCode
    reason: str
    retry_seconds: float | None = None
    message: str | None = None  # by default the exception's own


_MEMORY = "out of memory: send fewer states in a call"
_UNEXPECTED = Status(grpc.StatusCode.INTERNAL, "the server failed to answer; see its log", "INTERNAL", None)


@functools.cache
def _table(with_tensorflow: bool) -> tuple[_Row, ...]:
    code = grpc.StatusCode
    ours = (
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
        _Row(MemoryError, code.RESOURCE_EXHAUSTED, "OUT_OF_MEMORY", _RETRY_SECONDS, _MEMORY),
    )
    if not with_tensorflow:
        return ours
    import tensorflow as tf  # here, so that the command line starts without it

    malformed = "a serialized message in a tensor cannot be parsed"
    return (
        *ours,
        _Row(tf.errors.DataLossError, code.DATA_LOSS, "MALFORMED_MESSAGE", message=malformed),
        _Row(tf.errors.ResourceExhaustedError, code.RESOURCE_EXHAUSTED, "OUT_OF_MEMORY", _RETRY_SECONDS, _MEMORY),
    )


# Message and details are HTTP/2 headers, which clients limit to 8 KiB, and percent-encoding triples bytes.
_MAX_MESSAGE_BYTES = 1024


def status_of(error: Exception) -> Status:
    """Returns how `error` ends a call; the message of an unexpected error is withheld from the client."""
    for row in _table("tensorflow" in sys.modules):  # elsewhere nothing raises its errors
        if isinstance(error, row.kind):
            message = _shorten(str(error) if row.message is None else row.message)
            return Status(row.code, message, row.reason, getattr(error, "retry_seconds", None) or row.retry_seconds)
    return _UNEXPECTED


def end_of(error: Exception, method: str) -> tuple[Status, Metadata]:
    """Returns how `error` ends the current call, and the metadata with the details.

    The type and the stack of an unexpected error are logged. Its message is not, as it may contain evidence.
    """
    status = status_of(error)
    if status == _UNEXPECTED:
        stack = "".join(traceback.format_tb(error.__traceback__))
        _LOGGER.error("%s: unexpected %s:\n%s", method, type(error).__qualname__, stack)
    call = calls.current()
    call.reason = status.reason
    faults = error.faults if isinstance(error, FaultyRequestError) else ()
    call.unknown_codes = sum(fault.reason == UNKNOWN_CODE for fault in faults)
    return status, (*call.request.id_metadata, (KEY, details_of(status, faults)))


def _shorten(message: str) -> str:
    encoded = message.encode(errors="backslashreplace")  # half a pair of surrogates cannot be encoded otherwise
    if len(encoded) <= _MAX_MESSAGE_BYTES:
        return encoded.decode()
    return encoded[: _MAX_MESSAGE_BYTES - 4].decode(errors="ignore") + " ..."


KEY = "grpc-status-details-bin"
"""The metadata key under which gRPC's libraries look for the details."""

DOMAIN = "triage.v1"
"""The domain of the reasons."""

MAX_BYTES = 3072
"""Largest size of the details: base64 adds a third, and headers above 8 KiB do not arrive."""


def details_of(status: Status, faults: Sequence[Fault] = ()) -> bytes:
    """Returns a serialized google.rpc.Status of at most `MAX_BYTES` beyond its message.

    It has an ErrorInfo with the reason, a RetryInfo if a later call may succeed, and for a faulty request a BadRequest
    and one UnknownCode per unknown code, as far as there is room.
    """
    common = _common_details(status)
    room = MAX_BYTES - len(common) + len(status.message.encode())
    return common + status_pb2.Status(details=_fault_details(faults, room)).SerializeToString()


@functools.lru_cache(maxsize=16)  # a server that has too much to do refuses thousands of calls alike
def _common_details(status: Status) -> bytes:
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=status.reason, domain=DOMAIN)]
    if status.retry_seconds is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(round(status.retry_seconds * 1000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    message = status_pb2.Status(code=status.code.value[0], message=status.message, details=map(_pack, details))
    serialized: bytes = message.SerializeToString()
    return serialized


def _fault_details(faults: Sequence[Fault], room: int) -> list[any_pb2.Any]:
    """Returns a BadRequest and UnknownCodes of at most about `room` bytes, for as many faults as fit."""
    bad_request = error_details_pb2.BadRequest()
    unknown: list[any_pb2.Any] = []
    room -= 128  # for type names and the lengths of nested messages
    for fault in faults:
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

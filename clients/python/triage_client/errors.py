"""The exceptions of a call: one class for each gRPC status that a caller may handle."""

from typing import Optional

import grpc

from triage_client import details
from triage_client.details import ErrorDetails, FieldViolation


class TriageError(Exception):
    """A call failed: the server refused it, failed, or could not be reached in time. The cause is gRPC's error.

    Attributes:
        status: the gRPC status.
        message: the message of the server, or of gRPC if no server answered. It may contain evidence codes.
        reason: the reason, for programs, such as `OVERLOADED`; "" if unknown. docs/reference.md lists them.
        violations: what is wrong with the request, by field; empty for other errors.
        retry_after_seconds: when a later call may succeed, None if unknown.
        request_id: the call's id in the server's log, "" if no server answered.
    """

    def __init__(self, status: grpc.StatusCode, message: str, details: ErrorDetails = ErrorDetails()):  # noqa: B008
        super().__init__(status, message, details)
        self.status = status
        self.message = message
        self.reason: str = details.reason
        self.violations: tuple[FieldViolation, ...] = details.violations
        self.retry_after_seconds: Optional[float] = details.retry_after_seconds
        self.request_id: str = details.request_id

    def __str__(self) -> str:
        return f"{self.status.name}: {self.message}"


class InvalidArgumentError(TriageError):
    """The request is faulty; the message names the field and what is wrong."""


class UnauthenticatedError(TriageError):
    """The token is missing or not valid."""


class PermissionDeniedError(TriageError):
    """The caller lacks permission for the call."""


class NotFoundError(TriageError):
    """The server does not have what was asked for."""


class FailedPreconditionError(TriageError):
    """The server is not in the state that the call requires."""


class ResourceExhaustedError(TriageError):
    """The request is too large, or the server is overloaded."""


class UnavailableError(TriageError):
    """No server was reached, its certificate is not trusted, or it cannot answer now; a later call may succeed."""


class DeadlineExceededError(TriageError):
    """No answer came in time."""


class CallCancelledError(TriageError):
    """The client or the server cancelled the call before its answer."""


class UnimplementedError(TriageError):
    """The server does not offer the method: it is not a triage server, or an older one."""


class InternalError(TriageError):
    """The server failed, or sent an invalid answer."""


_BY_STATUS: dict[grpc.StatusCode, type[TriageError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDeniedError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPreconditionError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhaustedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    grpc.StatusCode.CANCELLED: CallCancelledError,
    grpc.StatusCode.UNIMPLEMENTED: UnimplementedError,
    grpc.StatusCode.INTERNAL: InternalError,
}


def from_status(status: grpc.StatusCode, message: str, details: ErrorDetails = ErrorDetails()) -> TriageError:  # noqa: B008
    """Returns the error of a status; a status without a class of its own gives a plain TriageError."""
    return _BY_STATUS.get(status, TriageError)(status, message, details)


def from_rpc(error: grpc.RpcError) -> TriageError:
    """Returns the error of a call that failed, sync or asyncio."""
    return from_status(error.code(), error.details() or "no details", details.from_metadata(error.trailing_metadata()))


def late_answer(seconds: float) -> DeadlineExceededError:
    """Returns the error of an answer in an interview that did not arrive in time."""
    return DeadlineExceededError(grpc.StatusCode.DEADLINE_EXCEEDED, f"no answer within {seconds:g} s")

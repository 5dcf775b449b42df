"""What a failed call tells programs beside its message: the details of google.rpc.Status, as grpcio-status has them."""

from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from serving.errors import FaultyRequestError
from triage.v1 import triage_service_pb2

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
        reason: the reason of the table in `serving.status`.
        retry_seconds: when to try again, None for never.
        error: what ended the call.
    """
    status = status_pb2.Status(code=code, message=message)
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN)]
    if retry_seconds is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(round(retry_seconds * 1000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    status.details.extend(map(_packed, details))
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
            code = _packed(
                triage_service_pb2.UnknownCode(field=fault.field, code=fault.code, nearest_codes=fault.nearest)
            )
            size += code.ByteSize() + 8
        if size > room:
            break
        room -= size
        bad_request.field_violations.append(violation)
        if code is not None:
            unknown.append(code)
    return [_packed(bad_request), *unknown] if bad_request.field_violations else []


def _packed(message: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed

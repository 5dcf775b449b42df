"""The details of a failed call: google.rpc.Status, read without googleapis-common-protos.

The messages are declared here under names of this package. They have the same bytes on the wire, and do not clash with
other declarations of google.rpc in the process.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any, Optional

from google.protobuf import descriptor_pb2, message, message_factory

from triage_client.v1 import _pool, triage_service_pb2

KEY = "grpc-status-details-bin"
REQUEST_ID = "x-request-id"

_PACKAGE = "triage_client.rpc"
_STRING, _INT32, _INT64 = (
    getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{t}") for t in ("STRING", "INT32", "INT64")
)
_BYTES = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
_MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
# The fields used here of google/rpc/status.proto and error_details.proto, google/protobuf/any.proto and duration.proto:
# (name, number, type, message type, repeated).
_FIELDS: dict[str, list[tuple[str, int, int, str, bool]]] = {
    "Any": [("type_url", 1, _STRING, "", False), ("value", 2, _BYTES, "", False)],
    "Status": [("code", 1, _INT32, "", False), ("details", 3, _MESSAGE, "Any", True)],
    "Duration": [("seconds", 1, _INT64, "", False), ("nanos", 2, _INT32, "", False)],
    "RetryInfo": [("retry_delay", 1, _MESSAGE, "Duration", False)],
    "ErrorInfo": [("reason", 1, _STRING, "", False), ("domain", 2, _STRING, "", False)],
    "FieldViolation": [
        ("field", 1, _STRING, "", False),
        ("description", 2, _STRING, "", False),
        ("reason", 3, _STRING, "", False),
    ],
    "BadRequest": [("field_violations", 1, _MESSAGE, "FieldViolation", True)],
}


@dataclasses.dataclass(frozen=True)
class FieldViolation:
    """What is wrong with one field of a request.

    Attributes:
        field: path of the field, such as `states[3].evidence[2].code`.
        description: what is wrong.
        reason: the kind of fault, for programs, such as `UNKNOWN_CODE`.
        code: the unknown code, "" for other faults.
        nearest_codes: the known codes most similar to an unknown one, the most similar first.
    """

    field: str
    description: str
    reason: str = ""
    code: str = ""
    nearest_codes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ErrorDetails:
    """The details of a failed call besides status and message; empty if it has none.

    Attributes:
        reason: the reason, for programs, such as `OVERLOADED`.
        violations: what is wrong with the request, by field.
        retry_after_seconds: when a later call may succeed, None if unknown.
        request_id: the call's id in the server's log.
    """

    reason: str = ""
    violations: tuple[FieldViolation, ...] = ()
    retry_after_seconds: Optional[float] = None
    request_id: str = ""


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="triage_client/rpc.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _FIELDS.items():
        described = file.message_type.add(name=name)
        for field, number, kind, type_name, repeated in fields:
            added = described.field.add(name=field, number=number, type=kind)
            added.label = added.LABEL_REPEATED if repeated else added.LABEL_OPTIONAL
            if type_name:
                added.type_name = f".{_PACKAGE}.{type_name}"
    _pool.POOL.AddSerializedFile(file.SerializeToString())
    find = _pool.POOL.FindMessageTypeByName
    return {name: message_factory.GetMessageClass(find(f"{_PACKAGE}.{name}")) for name in _FIELDS}


_CLASSES = _classes()


def from_metadata(metadata: Optional[Iterable[tuple[str, Any]]]) -> ErrorDetails:
    """Returns the details in a call's trailing metadata; unreadable details are left out."""
    values = dict(iter(metadata or ()))  # asyncio's is a mapping whose items() differ
    request_id = values.get(REQUEST_ID, "")
    try:
        status = _CLASSES["Status"].FromString(values.get(KEY, b""))
        return _read(status, request_id)
    except (message.DecodeError, TypeError):
        return ErrorDetails(request_id=request_id)


def _read(status: Any, request_id: str) -> ErrorDetails:
    reason, retry, violations = "", None, []
    unknown = {}
    for detail in status.details:
        name = detail.type_url.rpartition("/")[2]
        if name == "google.rpc.ErrorInfo":
            reason = _CLASSES["ErrorInfo"].FromString(detail.value).reason
        elif name == "google.rpc.RetryInfo":
            delay = _CLASSES["RetryInfo"].FromString(detail.value).retry_delay
            retry = delay.seconds + delay.nanos / 1e9
        elif name == "google.rpc.BadRequest":
            violations.extend(_CLASSES["BadRequest"].FromString(detail.value).field_violations)
        elif name == "triage.v1.UnknownCode":
            code = triage_service_pb2.UnknownCode.FromString(detail.value)
            unknown[code.field] = (code.code, tuple(code.nearest_codes))
    return ErrorDetails(
        reason=reason,
        violations=tuple(
            FieldViolation(each.field, each.description, each.reason, *unknown.get(each.field, ("", ())))
            for each in violations
        ),
        retry_after_seconds=retry,
        request_id=request_id,
    )

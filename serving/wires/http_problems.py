"""Failures of a call as `application/problem+json` (RFC 9457), with the reasons and hints of gRPC."""

import http
import json
import math
from typing import Any

import grpc
from starlette.responses import Response

from schemas.errors import InputError
from serving import call as calls
from serving.admission import end_of
from serving.errors import FaultyRequestError

_CODE = grpc.StatusCode
STATUSES = {
    _CODE.INVALID_ARGUMENT: 400,
    _CODE.FAILED_PRECONDITION: 400,
    _CODE.DATA_LOSS: 400,
    _CODE.UNAUTHENTICATED: 401,
    _CODE.PERMISSION_DENIED: 403,
    _CODE.NOT_FOUND: 404,
    _CODE.RESOURCE_EXHAUSTED: 429,
    _CODE.INTERNAL: 500,
    _CODE.UNIMPLEMENTED: 501,
    _CODE.UNAVAILABLE: 503,
    _CODE.DEADLINE_EXCEEDED: 504,
}
"""The HTTP status of each gRPC status."""

MEDIA_TYPE = "application/problem+json"


class BodyError(InputError):
    """The body of a request is refused before it is read, with an HTTP status; the message says what to do."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def problem_of(error: Exception, name: str) -> tuple[Response, str]:
    """Returns the answer to the current call, which failed with `error`, and the name of the gRPC status."""
    status, _ = end_of(error, name)
    number = error.status if isinstance(error, BodyError) else STATUSES[status.code]
    body: dict[str, Any] = {"detail": status.message, "reason": status.reason}
    headers = {}
    if number == 401:
        headers["www-authenticate"] = "Bearer"
    if status.retry_seconds is not None:
        headers["retry-after"] = str(math.ceil(status.retry_seconds))
        body["retry_after_seconds"] = status.retry_seconds
    if isinstance(error, FaultyRequestError):
        body["errors"] = [
            {
                "field": fault.field,
                "description": fault.description,
                "reason": fault.reason,
                **({"code": fault.code, "nearest_codes": list(fault.nearest)} if fault.code else {}),
            }
            for fault in error.faults
        ]
    return problem(number, body, headers), status.code.name


def problem(number: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    """Returns a problem with an HTTP status, its fields, and the id of the current call."""
    title = http.HTTPStatus(number).phrase  # as RFC 9457 has it of problems without a type of their own
    request_id = calls.current().request.id
    content = {"type": "about:blank", "title": title, "status": number, **body}
    if request_id:
        content["request_id"] = request_id
    content["error"] = body.get("detail", title)  # where clients of TensorFlow Serving look
    return Response(json.dumps(content), number, headers, MEDIA_TYPE)

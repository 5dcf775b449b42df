"""Failures as problems: status, reason, hints."""

import json

import pytest

from schemas.errors import InputError
from serving.errors import (
    ExhaustedError,
    Fault,
    FaultyRequestError,
    ForbiddenError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from serving.wires.http_problems import TITLES, BodyError, problem_of


@pytest.mark.parametrize(
    ("error", "status", "reason", "retry_after"),
    [
        (InputError("bad"), 400, "INVALID_REQUEST", None),
        (UnauthenticatedError("no token"), 401, "TOKEN_REFUSED", None),
        (ForbiddenError("no"), 403, "NOT_ALLOWED", None),
        (NotFoundError("nothing"), 404, "NOT_SERVED", None),
        (BodyError(413, "much"), 413, "INVALID_REQUEST", None),
        (ExhaustedError("full", 7.2), 429, "OVERLOADED", "8"),
        (UnavailableError("later"), 503, "NOT_READY", "1"),
    ],
)
def test_a_failure_has_its_status_reason_and_message(error, status, reason, retry_after):
    response, _ = problem_of(error, "v1/triage")
    assert response.headers.get("retry-after") == retry_after  # whole seconds
    body = json.loads(response.body)
    assert (response.status_code, body["status"], body["reason"]) == (status, status, reason)
    assert body["detail"] == body["error"] == str(error)
    assert body["title"] == TITLES[status]


def test_faults_are_listed():
    faults = [
        Fault("present[0]", "unknown", "UNKNOWN_CODE", "fevr", ("fever",)),
        Fault("absent", "a list", "WRONG_TYPE"),
    ]
    response, _ = problem_of(FaultyRequestError(faults), "v1/triage")
    assert json.loads(response.body)["errors"] == [
        {
            "field": "present[0]", "description": "unknown", "reason": "UNKNOWN_CODE", "code": "fevr",
            "nearest_codes": ["fever"],
        },
        {"field": "absent", "description": "a list", "reason": "WRONG_TYPE"},
    ]  # fmt: skip

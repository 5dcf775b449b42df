"""From exception to gRPC status, and what the log omits."""

import contextvars
import inspect
import json
import logging
import math

import grpc
import pytest
import tensorflow as tf
from google.rpc import error_details_pb2, status_pb2

from schemas.errors import InputError
from serving import call as calls
from serving import errors
from serving.admission.status import DOMAIN, MAX_BYTES, Status, details_of, end_of, status_of
from serving.errors import Fault
from serving.wires.http_problems import problem_of
from triage.v1 import triage_service_pb2

FAULTY = Status(grpc.StatusCode.INVALID_ARGUMENT, "message", "INVALID_REQUEST", None)
EVIDENCE = "chest_pain of patient 17"
HTTP = {
    grpc.StatusCode.INVALID_ARGUMENT: 400, grpc.StatusCode.FAILED_PRECONDITION: 400, grpc.StatusCode.DATA_LOSS: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401, grpc.StatusCode.PERMISSION_DENIED: 403, grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429, grpc.StatusCode.INTERNAL: 500, grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503, grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}  # fmt: skip


@pytest.mark.parametrize(
    ("error", "code", "reason", "retried"),
    [
        (InputError("unknown code"), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", False),
        (errors.UnauthenticatedError("no token"), grpc.StatusCode.UNAUTHENTICATED, "TOKEN_REFUSED", False),
        (errors.ForbiddenError("not from there"), grpc.StatusCode.PERMISSION_DENIED, "NOT_ALLOWED", False),
        (errors.NotFoundError("no model"), grpc.StatusCode.NOT_FOUND, "NOT_SERVED", False),
        (errors.PreconditionError("not loaded"), grpc.StatusCode.FAILED_PRECONDITION, "NOT_IN_THIS_STATE", False),
        (errors.UnsupportedError("no"), grpc.StatusCode.UNIMPLEMENTED, "NOT_OFFERED", False),
        (errors.UnavailableError("not ready"), grpc.StatusCode.UNAVAILABLE, "NOT_READY", True),
        (errors.GoneError("gone"), grpc.StatusCode.UNAVAILABLE, "NOT_READY", True),
        (errors.DeadlineError("late"), grpc.StatusCode.DEADLINE_EXCEEDED, "TOO_LATE", False),
        (errors.ExhaustedError("full", 7.2), grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", True),
        (errors.EngineError("failed"), grpc.StatusCode.INTERNAL, "ENGINE_FAILED", False),
        (tf.errors.DataLossError(None, None, EVIDENCE), grpc.StatusCode.DATA_LOSS, "MALFORMED_MESSAGE", False),
        *(
            (error, grpc.StatusCode.RESOURCE_EXHAUSTED, "OUT_OF_MEMORY", True)
            for error in (tf.errors.ResourceExhaustedError(None, None, EVIDENCE), MemoryError(EVIDENCE))
        ),
        (tf.errors.InvalidArgumentError(None, None, EVIDENCE), grpc.StatusCode.INTERNAL, "INTERNAL", False),
        (ValueError(EVIDENCE), grpc.StatusCode.INTERNAL, "INTERNAL", False),
    ],
)
def test_each_exception_has_its_status_by_both_wires_and_only_our_own_speak_for_themselves(
    error, code, reason, retried
):
    status = status_of(error)
    assert (status.code, status.reason, status.retry_seconds is not None) == (code, reason, retried)
    ours = type(error).__module__ in ("serving.errors", "schemas.errors")
    assert (status.message == str(error)) is ours
    assert EVIDENCE not in status.message
    response, name = problem_of(error, "v1/triage")
    body = json.loads(response.body)
    assert (response.status_code, body["status"], name) == (HTTP[code], HTTP[code], code.name)
    assert (body["reason"], body["detail"], body["error"]) == (reason, status.message, status.message)
    assert response.headers.get("retry-after") == (str(math.ceil(status.retry_seconds)) if retried else None)


def test_a_long_message_fits_into_a_header_and_stays_readable():
    message = status_of(InputError("é" * 5000)).message
    assert len(message.encode()) <= 1024
    assert message.endswith("é ...")


def raised(error):
    """Returns an exception with a traceback, as a service raises it."""
    try:
        raise error
    except Exception as caught:
        return caught


def test_half_a_character_in_a_message_does_not_keep_it_from_the_caller():
    assert status_of(InputError("no input '\ud800'")).message == "no input '\\ud800'"


def test_an_unexpected_failure_is_logged_by_type_and_place_without_what_it_says(caplog):
    with caplog.at_level(logging.DEBUG):
        status, _ = end_of(raised(KeyError(EVIDENCE)), "Triage")
    assert status.code is grpc.StatusCode.INTERNAL
    assert "Triage: unexpected KeyError" in caplog.text
    assert "status_test.py" in caplog.text
    assert EVIDENCE not in caplog.text + status.message


def test_the_metadata_of_a_failure_names_the_call_and_has_its_details():
    def answer():
        calls.enter(calls.Call(calls.Request(id="r-17")))
        return end_of(errors.UnavailableError("no model version is ready"), "Triage"), calls.current()

    (_, metadata), call = contextvars.copy_context().run(answer)
    metadata = dict(metadata)
    assert metadata["x-request-id"] == "r-17"
    details = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    assert (details.code, details.message) == (14, "no model version is ready")
    assert call.reason == "NOT_READY"


def unpacked(details):
    """Returns the messages in the details of each type, by the type's name."""
    types = (
        error_details_pb2.ErrorInfo,
        error_details_pb2.RetryInfo,
        error_details_pb2.BadRequest,
        triage_service_pb2.UnknownCode,
    )
    messages = {}
    for detail in status_pb2.Status.FromString(details).details:
        for kind in types:
            message = kind()
            if detail.Unpack(message):
                messages.setdefault(kind.DESCRIPTOR.full_name, []).append(message)
    return messages


def test_a_failure_has_its_reason_and_when_to_try_again():
    details = unpacked(details_of(Status(grpc.StatusCode.UNAVAILABLE, "not ready", "NOT_READY", 1.25)))
    [info], [retry] = details.pop("google.rpc.ErrorInfo"), details.pop("google.rpc.RetryInfo")
    assert (info.reason, info.domain) == ("NOT_READY", DOMAIN)
    assert (retry.retry_delay.seconds, retry.retry_delay.nanos) == (1, 250_000_000)
    assert not details


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f912"])
def test_the_details_of_many_faults_fit_into_a_header_and_the_first_are_there(letter):
    code = letter * 128
    faults = [
        Fault(f"state.evidence[{n}].code", f"unknown {code}", "UNKNOWN_CODE", code, (code,) * 3) for n in range(10)
    ]
    details = details_of(FAULTY, faults)
    assert len(details) <= MAX_BYTES
    messages = unpacked(details)
    listed = [each.field for each in messages["google.rpc.BadRequest"][0].field_violations]
    assert listed == [fault.field for fault in faults[: len(listed)]]
    assert len(listed) == len(messages["triage.v1.UnknownCode"]) >= 1


KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]


def test_each_kind_has_a_status_of_its_own_and_speaks_for_itself():
    kinds = [kind for kind in KINDS if kind.__bases__ == (Exception,)]
    statuses = [status_of(kind("what to do")) for kind in [*kinds, InputError]]
    assert {status.message for status in statuses} == {"what to do"}
    assert len({status.code for status in statuses}) == len(statuses)

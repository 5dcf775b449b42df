"""From exception to gRPC status, and what the log keeps to itself."""

import contextvars
import logging

import grpc
import pytest
import tensorflow as tf
from google.rpc import status_pb2

from schemas.errors import InputError
from serving import call as calls
from serving import errors
from serving.status import failed, status_of

EVIDENCE = "chest_pain of patient 17"


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
        (errors.ExhaustedError("full"), grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", True),
        (errors.EngineError("failed"), grpc.StatusCode.INTERNAL, "ENGINE_FAILED", False),
        (tf.errors.DataLossError(None, None, EVIDENCE), grpc.StatusCode.DATA_LOSS, "MALFORMED_MESSAGE", False),
        (
            tf.errors.ResourceExhaustedError(None, None, EVIDENCE),
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "OUT_OF_MEMORY",
            True,
        ),
        (MemoryError(EVIDENCE), grpc.StatusCode.RESOURCE_EXHAUSTED, "OUT_OF_MEMORY", True),
        (tf.errors.InvalidArgumentError(None, None, EVIDENCE), grpc.StatusCode.INTERNAL, "INTERNAL", False),
        (ValueError(EVIDENCE), grpc.StatusCode.INTERNAL, "INTERNAL", False),
    ],
)
def test_each_exception_has_its_status_and_only_our_own_speak_for_themselves(error, code, reason, retried):
    status = status_of(error)
    assert (status.code, status.reason, status.retry_seconds is not None) == (code, reason, retried)
    ours = type(error).__module__ in ("serving.errors", "schemas.errors")
    assert (status.message == str(error)) is ours
    assert EVIDENCE not in status.message


def test_a_long_message_fits_into_a_header_and_stays_readable():
    message = status_of(InputError("é" * 5000)).message
    assert len(message.encode()) <= 1024
    assert message.endswith("é ...")


def raised(error):
    """Returns an exception as a service raised it, with its stack."""
    try:
        raise error
    except Exception as caught:
        return caught


def test_an_unexpected_failure_is_logged_by_type_and_place_without_what_it_says(caplog):
    with caplog.at_level(logging.DEBUG):
        status, _ = failed(raised(KeyError(EVIDENCE)), "Triage")
    assert status.code is grpc.StatusCode.INTERNAL
    assert status.message == "the server failed to answer; its log tells why"
    assert "Triage: unexpected KeyError" in caplog.text
    assert "status_test.py" in caplog.text
    assert EVIDENCE not in caplog.text


def test_the_metadata_of_a_failure_names_the_call_and_has_its_details():
    def answer():
        calls.enter(calls.Call(request_id="r-17"))
        return failed(errors.UnavailableError("no model version is ready"), "Triage"), calls.current()

    (_, metadata), call = contextvars.copy_context().run(answer)
    metadata = dict(metadata)
    assert metadata["x-request-id"] == "r-17"
    details = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    assert (details.code, details.message) == (14, "no model version is ready")
    assert call.reason == "NOT_READY"


def test_bad_input_is_not_logged(caplog):
    with caplog.at_level(logging.DEBUG):
        status, _ = failed(raised(InputError(EVIDENCE)), "Triage")
    assert (status.code, status.message) == (grpc.StatusCode.INVALID_ARGUMENT, EVIDENCE)
    assert caplog.text == ""

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
from serving.status import reported, reported_stream, status_of

EVIDENCE = "chest_pain of patient 17"


class AbortedError(Exception):
    pass


class Context:
    """The part of a gRPC context that ends a call, as grpc does: by raising."""

    active = True
    metadata = ()

    def is_active(self):
        return self.active

    def set_trailing_metadata(self, metadata):
        self.metadata = metadata

    def abort(self, code, message):
        self.ended = (code, message)
        raise AbortedError


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


def test_an_unexpected_failure_is_logged_by_type_and_place_without_what_it_says(caplog):
    @reported
    def method(servicer, request, context):
        raise KeyError(EVIDENCE)

    context = Context()
    with caplog.at_level(logging.DEBUG), pytest.raises(AbortedError):
        method(None, None, context)
    assert context.ended == (grpc.StatusCode.INTERNAL, "the server failed to answer; its log tells why")
    assert "unexpected KeyError" in caplog.text
    assert "status_test.py" in caplog.text
    assert EVIDENCE not in caplog.text


def test_the_metadata_of_a_failure_names_the_call_and_has_its_details():
    @reported
    def method(servicer, request, context):
        raise errors.UnavailableError("no model version is ready")

    def answer():
        calls.enter(calls.Call(request_id="r-17"))
        method(None, None, context)

    context = Context()
    with pytest.raises(AbortedError):
        contextvars.copy_context().run(answer)
    metadata = dict(context.metadata)
    assert metadata["x-request-id"] == "r-17"
    details = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    assert (details.code, details.message) == (14, "no model version is ready")


def test_bad_input_is_not_logged(caplog):
    @reported
    def method(servicer, request, context):
        raise InputError(EVIDENCE)

    context = Context()
    with caplog.at_level(logging.DEBUG), pytest.raises(AbortedError):
        method(None, None, context)
    assert context.ended == (grpc.StatusCode.INVALID_ARGUMENT, EVIDENCE)
    assert caplog.text == ""


def test_a_stream_that_fails_ends_with_its_status_after_what_it_answered(caplog):
    @reported_stream
    def method(servicer, requests, context):
        yield from requests
        raise KeyError(EVIDENCE)

    context = Context()
    answers = method(None, [1, 2], context)
    assert [next(answers), next(answers)] == [1, 2]
    with caplog.at_level(logging.DEBUG), pytest.raises(AbortedError):
        next(answers)
    assert context.ended == (grpc.StatusCode.INTERNAL, "the server failed to answer; its log tells why")
    assert "unexpected KeyError" in caplog.text
    assert EVIDENCE not in caplog.text


def test_a_stream_whose_caller_went_away_ends_silently(caplog):
    @reported_stream
    def method(servicer, requests, context):
        yield 1
        context.active = False
        raise grpc.RpcError

    with caplog.at_level(logging.DEBUG):
        assert list(method(None, None, Context())) == [1]
    assert caplog.text == ""

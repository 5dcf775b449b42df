"""From exception to gRPC status, and what the log keeps to itself."""

import logging

import grpc
import pytest
import tensorflow as tf

from schemas.errors import InputError
from serving.status import reported, reported_stream, status_of

EVIDENCE = "chest_pain of patient 17"


class AbortedError(Exception):
    pass


class Context:
    """The part of a gRPC context that ends a call, as grpc does: by raising."""

    active = True

    def is_active(self):
        return self.active

    def abort(self, code, message):
        self.ended = (code, message)
        raise AbortedError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("unknown code"), grpc.StatusCode.INVALID_ARGUMENT),
        (tf.errors.ResourceExhaustedError(None, None, EVIDENCE), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (MemoryError(EVIDENCE), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (tf.errors.InvalidArgumentError(None, None, EVIDENCE), grpc.StatusCode.INTERNAL),
        (ValueError(EVIDENCE), grpc.StatusCode.INTERNAL),
    ],
)
def test_each_exception_has_its_status_and_only_bad_input_speaks_for_itself(error, code):
    status, message = status_of(error)
    assert status is code
    assert (message == str(error)) is (code is grpc.StatusCode.INVALID_ARGUMENT)
    assert EVIDENCE not in message


def test_a_long_message_fits_into_a_header_and_stays_readable():
    _, message = status_of(InputError("é" * 5000))
    assert len(message.encode()) <= 2048
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

"""Errors keep the status and the message."""

import pickle

import grpc
import pytest

import triage_client
from triage_client import errors
from triage_client.details import ErrorDetails


@pytest.mark.parametrize("status", grpc.StatusCode)
def test_each_status_has_its_error(status):
    error = errors.from_status(status, "why")
    name = "CallCancelled" if status is grpc.StatusCode.CANCELLED else status.name.title().replace("_", "")
    assert type(error) is getattr(triage_client, f"{name}Error", triage_client.TriageError)
    assert (error.status, error.message) == (status, "why")


def test_an_error_goes_through_a_process_pool():
    violation = triage_client.FieldViolation("state.evidence[0].code", "unknown", "UNKNOWN_CODE", "fevr", ("fever",))
    sent = errors.from_status(
        grpc.StatusCode.INVALID_ARGUMENT, "why", ErrorDetails("INVALID_REQUEST", (violation,), 1.5, "r-17")
    )
    error = pickle.loads(pickle.dumps(sent))  # noqa: S301
    assert type(error) is triage_client.InvalidArgumentError
    assert (error.reason, error.violations) == ("INVALID_REQUEST", (violation,))
    assert (error.retry_after_seconds, error.request_id) == (1.5, "r-17")
    error = pickle.loads(pickle.dumps(errors.late_answer(0.5)))  # noqa: S301
    assert type(error) is triage_client.DeadlineExceededError
    assert (error.status, error.message) == (grpc.StatusCode.DEADLINE_EXCEEDED, "no answer within 0.5 s")

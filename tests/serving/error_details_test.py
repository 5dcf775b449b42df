"""The details that programs read of a failed call."""

import pytest
from google.rpc import error_details_pb2, status_pb2

from schemas.errors import InputError
from serving.error_details import DOMAIN, MAX_BYTES, details_of
from serving.errors import Fault, FaultyRequestError
from triage.v1 import triage_service_pb2


def unpacked(details):
    """Returns the messages in the details of each type, by the type's name."""
    types = (
        error_details_pb2.ErrorInfo,
        error_details_pb2.RetryInfo,
        error_details_pb2.BadRequest,
        triage_service_pb2.UnknownCode,
    )
    found = {}
    for detail in status_pb2.Status.FromString(details).details:
        for kind in types:
            message = kind()
            if detail.Unpack(message):
                found.setdefault(kind.DESCRIPTOR.full_name, []).append(message)
    return found


def test_a_failure_has_its_reason_and_when_to_try_again():
    found = unpacked(details_of(14, "not ready", "NOT_READY", 1.25, Exception()))
    [info], [retry] = found.pop("google.rpc.ErrorInfo"), found.pop("google.rpc.RetryInfo")
    assert (info.reason, info.domain) == ("NOT_READY", DOMAIN)
    assert (retry.retry_delay.seconds, retry.retry_delay.nanos) == (1, 250_000_000)
    assert not found


def test_what_cannot_be_tried_again_has_no_retry_info():
    assert set(unpacked(details_of(3, "no", "INVALID_REQUEST", None, InputError("no")))) == {"google.rpc.ErrorInfo"}


def test_a_faulty_request_names_its_fields_and_the_nearest_codes():
    error = FaultyRequestError(
        [
            Fault("states[3].evidence[2].code", "unknown", "UNKNOWN_CODE", "fevr", ("fever", "fear")),
            Fault("states[4].evidence", "empty", "NO_EVIDENCE"),
        ]
    )
    found = unpacked(details_of(3, str(error), "INVALID_REQUEST", None, error))
    [bad_request], [unknown] = found["google.rpc.BadRequest"], found["triage.v1.UnknownCode"]
    assert [(each.field, each.description, each.reason) for each in bad_request.field_violations] == [
        ("states[3].evidence[2].code", "unknown", "UNKNOWN_CODE"),
        ("states[4].evidence", "empty", "NO_EVIDENCE"),
    ]
    assert (unknown.field, unknown.code) == ("states[3].evidence[2].code", "fevr")
    assert unknown.nearest_codes == ["fever", "fear"]


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f912"])
def test_the_details_of_many_faults_fit_into_a_header_and_the_first_are_there(letter):
    code = letter * 128
    faults = [
        Fault(f"state.evidence[{n}].code", f"unknown {code}", "UNKNOWN_CODE", code, (code,) * 3) for n in range(10)
    ]
    details = details_of(3, "message", "INVALID_REQUEST", None, FaultyRequestError(faults))
    assert len(details) <= MAX_BYTES
    found = unpacked(details)
    told = [each.field for each in found["google.rpc.BadRequest"][0].field_violations]
    assert told == [fault.field for fault in faults[: len(told)]]
    assert len(told) == len(found["triage.v1.UnknownCode"]) >= 1

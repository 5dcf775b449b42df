"""The details that a server sends arrive in the errors, whether or not google.rpc is installed beside the client."""

import pathlib
import subprocess
import sys

import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

import triage_client
from triage_client.details import KEY, ErrorDetails, FieldViolation, from_metadata

PACKAGE = pathlib.Path(triage_client.__file__).parents[1]


def packed(message):
    detail = any_pb2.Any()
    detail.Pack(message)
    return detail


def test_details_in_googles_own_messages_are_read():
    status = status_pb2.Status(code=14, message="no")
    delay = duration_pb2.Duration(seconds=2, nanos=500_000_000)
    violations = [error_details_pb2.BadRequest.FieldViolation(field="state", description="missing", reason="MISSING")]
    details = [
        error_details_pb2.ErrorInfo(reason="NOT_READY", domain="triage.v1"),
        error_details_pb2.RetryInfo(retry_delay=delay),
        error_details_pb2.BadRequest(field_violations=violations),
        error_details_pb2.Help(),  # of a server of the future
    ]
    status.details.extend(map(packed, details))
    assert from_metadata([("x-request-id", "r-17"), (KEY, status.SerializeToString())]) == ErrorDetails(
        "NOT_READY", (FieldViolation("state", "missing", "MISSING"),), 2.5, "r-17"
    )


BROKEN = status_pb2.Status(details=[any_pb2.Any(type_url="x/google.rpc.BadRequest", value=b"\xff")])


@pytest.mark.parametrize(
    "metadata",
    [None, (), ((KEY, b"\xff\xff"),), ((KEY, "text"),), ((KEY, BROKEN.SerializeToString()),)],
    ids=["no metadata", "no details", "no message", "no bytes", "a broken detail"],
)
def test_unreadable_details_are_left_out(metadata):
    assert from_metadata(metadata) == ErrorDetails()


@pytest.mark.slow
def test_google_rpc_is_neither_needed_nor_a_conflict():
    script = (
        "import sys\n"
        "if sys.argv[1] == 'without': sys.modules['google.rpc'] = None\n"
        "if sys.argv[1] == 'before': from google.rpc import error_details_pb2, status_pb2\n"
        "import triage_client.details as details\n"
        "if sys.argv[1] == 'after': from google.rpc import error_details_pb2, status_pb2\n"
        "print(details.from_metadata([(details.KEY, bytes.fromhex(sys.argv[2]))]).reason)\n"
    )
    status = status_pb2.Status(details=[packed(error_details_pb2.ErrorInfo(reason="OVERLOADED"))]).SerializeToString()
    for order in ("without", "before", "after"):
        command = [sys.executable, "-c", script, order, status.hex()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=PACKAGE)
        assert done.stdout == "OVERLOADED\n", (order, done.stderr)

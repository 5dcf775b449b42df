"""Failures as problems; status_test.py has their statuses, reasons and hints."""

import json

from serving.errors import (
    Fault,
    FaultyRequestError,
)
from serving.wires.http_problems import problem_of


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

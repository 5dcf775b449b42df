"""What telemetry records of a call."""

import logging

from serving import call as calls
from serving.telemetry.recorder import Telemetry


def test_a_call_is_a_line_in_the_log_on_request(caplog):
    call = calls.Call(calls.Request("/triage.v1.TriageService/Triage", "r-17", peer="ipv6:%5B::1%5D:4100"))
    call.model_name, call.model_version, call.states = "triage", "3", 2
    call.reason, call.caller = "INVALID_REQUEST", "token 0a1b2c3d"
    with caplog.at_level(logging.INFO):
        Telemetry(log_calls=True).end(call, "unary", "INVALID_ARGUMENT")
    [record] = caplog.records
    assert record.fields.pop("seconds") >= 0
    assert record.fields == {
        "method": "/triage.v1.TriageService/Triage",
        "code": "INVALID_ARGUMENT",
        "peer": "ipv6:[::1]:4100",
        "caller": "token 0a1b2c3d",
        "model_name": "triage",
        "model_version": "3",
        "states": 2,
        "reason": "INVALID_REQUEST",
    }

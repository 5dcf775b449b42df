"""What telemetry records of a call."""

import logging

from serving import call as calls
from serving.telemetry.metrics import Metrics
from serving.telemetry.recorder import Telemetry


def test_a_call_is_a_line_in_the_log_on_request(caplog):
    call = calls.Call("/triage.v1.TriageService/Triage", "r-17")
    call.model_name, call.model_version, call.states = "triage", "3", 2
    call.peer, call.caller = "ipv6:%5B::1%5D:4100", "token 0a1b2c3d"
    with caplog.at_level(logging.INFO):
        Telemetry(log_calls=True).end(call, "unary", "OK")
    [record] = caplog.records
    assert record.fields.pop("seconds") >= 0
    assert record.fields == {
        "method": "/triage.v1.TriageService/Triage",
        "code": "OK",
        "peer": "ipv6:[::1]:4100",
        "caller": "token 0a1b2c3d",
        "model_name": "triage",
        "model_version": "3",
        "states": 2,
    }


def test_a_failed_call_has_its_reason_and_its_unknown_codes_are_counted(caplog):
    metrics = Metrics()
    call = calls.Call("/triage.v1.TriageService/Triage")
    call.model_name, call.reason, call.unknown_codes = "triage", "INVALID_REQUEST", 2
    with caplog.at_level(logging.INFO):
        Telemetry(metrics, log_calls=True).end(call, "unary", "INVALID_ARGUMENT")
    assert caplog.records[0].fields["reason"] == "INVALID_REQUEST"
    named = {"model_name": "triage", "outcome": "refused"}
    assert metrics.registry.get_sample_value("triage_unknown_codes_total", named) == 2

"""What telemetry records of a call."""

import contextvars
import logging

from serving import call as calls
from serving.config.settings import ServeConfig
from serving.telemetry.metrics import Metrics
from serving.telemetry.recorder import Telemetry
from triage.v1 import triage_pb2

RESPONSE = triage_pb2.TriageResponse(
    action=triage_pb2.TRIAGE_ACTION_RED, best_triage=triage_pb2.TRIAGE_ACTION_RED, model_version="3"
)


def _answer(telemetry):
    """Records an answer of the model "triage"."""
    call = calls.Call("/s/m")
    call.model_name = "triage"
    calls.enter(call)
    telemetry.record_answers([triage_pb2.EvidenceState()], [RESPONSE])


def test_a_server_keeps_what_its_settings_ask_for(tmp_path):
    assert Telemetry.of(ServeConfig()).metrics is None
    telemetry = Telemetry.of(ServeConfig(metrics_port=0, audit_log=str(tmp_path)))
    contextvars.copy_context().run(_answer, telemetry)
    telemetry.close()
    named = {"model_name": "triage", "model_version": "3", "action": "Red"}
    assert telemetry.metrics.registry.get_sample_value("triage_actions_total", named) == 1
    assert telemetry.metrics.registry.get_sample_value("triage_audit_records_total", {"outcome": "written"}) == 1


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

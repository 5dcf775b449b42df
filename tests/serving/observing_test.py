"""Calls through a real server: request ids come back, and metrics and log lines tell how they went."""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

import grpc
import pytest
from grpc_status import rpc_status

from serving.client import TriageClient, evidence_state
from triage.v1 import triage_service_pb2, triage_service_pb2_grpc

ROOT = pathlib.Path(__file__).parents[2]
TRIAGE = {"grpc_type": "unary", "grpc_service": "triage.v1.TriageService", "grpc_method": "Triage"}


@pytest.fixture
def server(serving):
    with serving(metrics_port=0) as server:
        yield server


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        yield channel


def read(server, name, **labels):
    """Returns the value of one metric as Prometheus gets it, None where there is none."""
    from prometheus_client.parser import text_string_to_metric_families

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(server.metrics_port.url, timeout=30) as answer:
        for family in text_string_to_metric_families(answer.read().decode()):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
    return None


def triage(channel, code, **options):
    request = triage_service_pb2.TriageRequest(state=evidence_state([code]))
    stub = triage_service_pb2_grpc.TriageServiceStub(channel)
    return stub.Triage.with_call(request, timeout=30, **options)


def test_the_callers_request_id_comes_back_and_another_is_made_where_there_is_none(channel):
    _, call = triage(channel, "fever", metadata=(("x-request-id", "r-17"),))
    assert dict(call.trailing_metadata())["x-request-id"] == "r-17"
    made = [dict(triage(channel, "fever")[1].trailing_metadata())["x-request-id"] for _ in range(2)]
    assert len(set(made)) == 2


def test_a_failure_keeps_the_request_id_beside_its_details(channel):
    with pytest.raises(grpc.RpcError) as error:
        triage(channel, "fevr", metadata=(("x-request-id", "r-17"),))
    assert dict(error.value.trailing_metadata())["x-request-id"] == "r-17"
    assert rpc_status.from_call(error.value).message == error.value.details()


def test_answers_and_their_stages_are_counted_when_they_are_sent(server, channel):
    triage(channel, "fever")
    triage(channel, "chest_pain")
    with pytest.raises(grpc.RpcError):
        triage(channel, "fevr")
    with TriageClient(server.address, timeout_seconds=30.0) as client, client.interview() as interview:
        interview.present("fever")
        interview.no_more_evidence()
        with pytest.raises(ValueError, match="has ended"):  # and so has the call on the server
            interview.not_known()
    assert read(server, "grpc_server_handled_total", **TRIAGE, grpc_code="OK") == 2
    assert read(server, "grpc_server_handled_total", **TRIAGE, grpc_code="INVALID_ARGUMENT") == 1
    assert read(server, "grpc_server_handling_seconds_count", **TRIAGE) == 3
    for stage in ("queue", "parse", "model", "respond"):
        named = {"model_version": "3", "signature": "serving_default", "stage": stage}
        assert read(server, "triage_stage_seconds_count", **named) == 4, stage
    assert read(server, "triage_actions_total", model_version="3", action="ask") == 2
    assert read(server, "triage_actions_total", model_version="3", action="Red") == 1
    assert read(server, "triage_forced_decisions_total", model_version="3") == 1
    assert read(server, "triage_unknown_codes_total", outcome="refused") == 1
    assert read(server, "triage_default_version", model_name="triage") == 3


def test_a_call_of_a_method_that_there_is_not_leaves_its_name_nowhere(server, channel):
    with pytest.raises(grpc.RpcError):
        channel.unary_unary("/triage.v1.TriageService/Chosen")(b"", timeout=30)
    unknown = {"grpc_service": "unknown", "grpc_method": "unknown", "grpc_code": "UNIMPLEMENTED"}
    assert read(server, "grpc_server_handled_total", **unknown) == 1
    assert read(server, "grpc_server_handled_total", grpc_method="Chosen") is None


def test_a_refused_token_is_counted_too(serving, tmp_path):
    (tmp_path / "tokens").write_text("secret\n")
    with (
        serving(metrics_port=0, tokens=str(tmp_path / "tokens")) as server,
        grpc.insecure_channel(server.address, options=[("grpc.enable_http_proxy", 0)]) as channel,
    ):
        with pytest.raises(grpc.RpcError) as error:
            triage(channel, "fever")
        assert "x-request-id" in dict(error.value.trailing_metadata())
        named = {"grpc_method": "Triage", "grpc_code": "UNAUTHENTICATED"}
        assert read(server, "grpc_server_handled_total", **named) == 1


def test_the_command_logs_each_call_as_json_without_evidence(model_base_path):
    set_by_tests = ("TF_USE_LEGACY_KERAS", "TF_CPP_MIN_LOG_LEVEL")
    environment = {key: value for key, value in os.environ.items() if key not in set_by_tests}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "proto")])
    options = ["--model-base-path", str(model_base_path), "--port", "0", "--metrics-port", "0"]
    process = subprocess.Popen(
        [sys.executable, ROOT / "triage_cli.py", "serve", *options, "--log-format", "json", "--log-calls"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        address = process.stdout.readline().split()[2].rstrip(",")
        assert process.stdout.readline().startswith("metrics at http://127.0.0.1:")
        with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            triage(channel, "chest_pain", metadata=(("x-request-id", "r-17"),))
            with pytest.raises(grpc.RpcError):
                triage(channel, "chest_pains", metadata=(("x-request-id", "r-18"),))
        process.terminate()
        errors = process.communicate(timeout=60)[1]
    finally:
        process.kill()
        process.communicate()
    assert [line for line in errors.splitlines() if not line.startswith("{")] == []
    entries = {entry.get("request_id"): entry for entry in map(json.loads, errors.splitlines())}
    assert (entries["r-17"]["code"], entries["r-17"]["model_version"], entries["r-17"]["states"]) == ("OK", "3", 1)
    assert (entries["r-18"]["code"], entries["r-18"]["reason"]) == ("INVALID_ARGUMENT", "INVALID_REQUEST")
    assert "chest_pain" not in errors

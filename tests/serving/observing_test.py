"""Calls through a real server: request ids come back, and metrics and log lines tell how they went."""

import json
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time
import urllib.request

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_status import rpc_status
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from serving.client import TriageClient, evidence_state
from serving.config import ServeConfig
from serving.local_models import LocalModels
from serving.server import TriageServer
from serving.version_policy import Wanted
from serving.versions import Versions
from serving.watcher import Watcher
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


def read_until(server, wanted, name, **labels):
    """Returns the value once it is `wanted`, or after half a minute: an end is counted after the caller has it."""
    end = time.monotonic() + 30
    while (value := read(server, name, **labels)) != wanted and time.monotonic() < end:
        pass
    return value


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


class Gated:
    """A source of one version, whose engine answers when its gate is opened."""

    def __init__(self, engine):
        self._engine, self.gate = engine, threading.Event()
        self.info, self.vocabulary = engine.info, engine.vocabulary

    def versions(self, base):
        return {3: base / "3"}

    def load(self, folder):
        return self

    def triage(self, states, timeout_seconds=None):
        assert self.gate.wait(60)
        return self._engine.triage(states)


def test_a_call_whose_caller_leaves_while_it_waits_for_a_thread_is_counted(engine):
    gated = Gated(engine)
    watcher = Watcher(Versions("triage"), gated, Wanted(pathlib.Path("models")))
    watcher.look()
    # Two threads, and a place to wait.
    config = ServeConfig(port=0, grace_seconds=1, max_workers=1, max_interviews=1, max_waiting=1, metrics_port=0)
    server = TriageServer(config)
    server.start(watcher)
    counts, rounds = {}, 0
    try:
        with grpc.insecure_channel(server.address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            while "CANCELLED" not in counts and rounds < 20:  # whether word of it comes before its turn is a race
                rounds += 1
                leave_while_one_waits(channel, gated.gate)
                counts = counts_until(server, 4 * rounds)
        assert sum(counts.values()) == 4 * rounds
        assert counts["RESOURCE_EXHAUSTED"] == rounds
        assert counts["CANCELLED"] >= 1  # also one of those that have a thread, if its request was still on its way
        assert (
            read(server, "grpc_server_handling_seconds_count", **TRIAGE) == 3 * rounds
        )  # the refused are no unary ones
    finally:
        gated.gate.set()
        server.stop()


def leave_while_one_waits(channel, gate):
    """Makes four calls: two run, one waits, and the other's refusal tells that all are there; then leaves them."""
    gate.clear()
    ended = queue.SimpleQueue()
    request = triage_service_pb2.TriageRequest(state=evidence_state(["fever"]))
    calls = [triage_service_pb2_grpc.TriageServiceStub(channel).Triage.future(request, timeout=60) for _ in range(4)]
    for call in calls:
        call.add_done_callback(ended.put)
    assert ended.get(timeout=30).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    for call in calls:
        call.cancel()
    gate.set()


def counts_until(server, total):
    """Returns the ended calls of Triage by status once they are `total`, or after half a minute."""
    codes, end = ("OK", "CANCELLED", "RESOURCE_EXHAUSTED"), time.monotonic() + 30
    while time.monotonic() < end:
        named = {"grpc_method": "Triage"}
        counts = {code: read(server, "grpc_server_handled_total", **named, grpc_code=code) for code in codes}
        counts = {code: count for code, count in counts.items() if count}
        if sum(counts.values()) == total:
            break
    return counts


def test_decisions_and_rules_are_counted_by_whichever_service_and_signature_they_are_made(guarded_base_path):
    watcher = Watcher(Versions("triage"), LocalModels(), Wanted(guarded_base_path))
    watcher.look()
    server = TriageServer(ServeConfig(port=0, grace_seconds=1, metrics_port=0))
    server.start(watcher)
    try:
        with grpc.insecure_channel(server.address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            triage(channel, "chest_pain")  # pain
            ask = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict
            for request in PREDICTIONS:
                ask(request, timeout=30)
        counts = {
            (name, value): read(server, f"triage_{name}_total", model_version="4", **{label: value})
            for name, label, values in (
                ("rules_fired", "rule_id", ("pain", "fever", "hot_smoker")),
                ("actions", "action", ("Red", "ask")),
                ("urgencies", "urgency", ("Red", "Yellow")),
            )
            for value in values
        }
        unknown = read(server, "triage_unknown_codes_total", outcome="left_out")
        forced = read(server, "triage_forced_decisions_total", model_version="4")
    finally:
        server.stop()
    assert counts == {
        ("rules_fired", "pain"): 4,  # of the typed service, and of each of three signatures
        ("rules_fired", "fever"): 2,
        ("rules_fired", "hot_smoker"): 1,
        ("actions", "Red"): 5,
        ("actions", "ask"): 1,  # fever alone is asked on about, for the rule is no red flag
        ("urgencies", "Red"): 5,
        ("urgencies", "Yellow"): 1,
    }
    assert (unknown, forced) == (1, 1)


def prediction(signature, output, **inputs):
    """A request for one output only: what was decided is counted whatever the caller wants to see of it."""
    request = predict_pb2.PredictRequest(output_filter=[output])
    request.model_spec.name, request.model_spec.signature_name = "triage", signature
    for alias, values in inputs.items():
        request.inputs[alias].CopyFrom(tf.make_tensor_proto(values))
    return request


PREDICTIONS = (
    prediction(
        "serving_default",
        "q_values",
        present=[["fever", "smoker"], ["chest_pain", ""], ["fever", ""]],  # fever and hot_smoker, pain, fever
        absent=[[""], [""], [""]],
        questions_asked=np.int32([0, 0, 0]),
    ),
    prediction("state", "action", states=np.float32([[1, 0, 0]]), questions_asked=np.int32([10])),  # pain, forced
    prediction(
        "triage", "triage_responses", evidence_states=[evidence_state(["chest_pain", "gout"]).SerializeToString()]
    ),  # pain, and a code that is not known
)


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

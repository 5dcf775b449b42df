"""Traces continue the caller's, down to the stages and to a TensorFlow Serving."""

import gzip
import http.server
import threading

import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from serving.call import Call, Request
from serving.engine.remote import Connection, RemoteModels
from serving.messages import state_message
from serving.telemetry.recorder import Telemetry
from serving.telemetry.tracing import Tracing
from tests.builders import channel_to, served, watching
from triage.v1 import triage_service_pb2, triage_service_pb2_grpc

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = ("traceparent", f"00-{TRACE}-{PARENT}-01")


@pytest.fixture
def traced():
    exporter = InMemorySpanExporter()
    return Tracing(exporter), exporter


def spans_of(traced):
    tracing, exporter = traced
    tracing.close()
    return {span.name: span for span in exporter.get_finished_spans()}


def test_a_call_is_a_span_below_the_callers_and_its_stages_are_below_it(traced):
    telemetry = Telemetry(tracing=traced[0])
    call = Call(Request("/triage.v1.TriageService/Triage", "r-17", [TRACEPARENT, ("other-bin", b"bytes")]))
    telemetry.begin(call)
    arrived = call.request.arrived
    call.add("queue", arrived, arrived + 0.25)
    call.add("model", arrived + 0.25, arrived + 1.0)
    telemetry.record_stages(call)
    call.model_version = "3"
    telemetry.end(call, "unary", "OK")
    spans = spans_of(traced)
    root = spans["triage.v1.TriageService/Triage"]
    assert (format(root.context.trace_id, "032x"), format(root.parent.span_id, "016x")) == (TRACE, PARENT)
    assert root.attributes["rpc.method"] == "Triage"
    assert root.attributes["triage.request_id"] == "r-17"
    assert root.attributes["triage.model_version"] == "3"
    assert root.status.is_unset
    assert {spans[stage].parent.span_id for stage in ("queue", "model")} == {root.context.span_id}
    assert (spans["queue"].end_time - spans["queue"].start_time) / 1e9 == pytest.approx(0.25, abs=1e-6)
    assert (spans["model"].start_time - root.start_time) / 1e9 == pytest.approx(0.25, abs=1e-6)


def test_a_tensorflow_serving_receives_the_trace_and_the_request_id(model_base_path, watcher, monkeypatch):
    exporters = {"front": InMemorySpanExporter(), "back": InMemorySpanExporter()}
    monkeypatch.setattr("serving.telemetry.recorder.exporter_of", exporters.__getitem__)
    with served(watcher, grace_seconds=1, traces="back") as back:
        connection = Connection(back.address, timeout_seconds=30)
        models = RemoteModels(connection, "triage")
        settings = {"engine": "tensorflow-serving", "tf_serving": back.address, "traces": "front"}
        with (
            served(watching(model_base_path, models), grace_seconds=1, **settings) as front,
            channel_to(front.address) as channel,
        ):
            request = triage_service_pb2.TriageRequest(state=state_message(["fever"]))
            metadata = [TRACEPARENT, ("x-request-id", "r-17")]
            triage_service_pb2_grpc.TriageServiceStub(channel).Triage(request, timeout=30, metadata=metadata)
        connection.close()
    spans = {name: exporter.get_finished_spans() for name, exporter in exporters.items()}
    (asked,) = [span for span in spans["front"] if span.name == "triage.v1.TriageService/Triage"]
    calls = [span for span in spans["back"] if span.name == "tensorflow.serving.PredictionService/Predict"]
    (behind,) = [
        span for span in calls if span.context.trace_id == asked.context.trace_id
    ]  # the others are from the start
    assert format(asked.parent.span_id, "016x") == PARENT
    assert behind.parent.span_id == asked.context.span_id
    assert (asked.attributes["triage.request_id"], behind.attributes["triage.request_id"]) == ("r-17", "r-17")


class Collector(http.server.BaseHTTPRequestHandler):
    """Receives spans as an OpenTelemetry collector does: OTLP over HTTP."""

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        content = gzip.decompress(content) if self.headers.get("Content-Encoding") == "gzip" else content
        request = trace_service_pb2.ExportTraceServiceRequest.FromString(content)
        self.server.received.append((self.path, request))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.received = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_collector_receives_the_spans_of_a_call_over_otlp(serving, collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    with (
        serving(traces="otlp_proto_http") as server,
        channel_to(server.address) as channel,
    ):
        request = triage_service_pb2.TriageRequest(state=state_message(["chest_pain"]))
        triage_service_pb2_grpc.TriageServiceStub(channel).Triage(request, timeout=30, metadata=[TRACEPARENT])
    assert {path for path, _ in collector.received} == {"/v1/traces"}
    resources = [resource for _, request in collector.received for resource in request.resource_spans]
    spans = {span.name: span for resource in resources for scope in resource.scope_spans for span in scope.spans}
    assert set(spans) == {"triage.v1.TriageService/Triage", "queue", "parse", "model", "respond"}
    root = spans["triage.v1.TriageService/Triage"]
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
    assert {span.parent_span_id for name, span in spans.items() if span is not root} == {root.span_id}
    named = {attribute.key: attribute.value.string_value for attribute in resources[0].resource.attributes}
    assert named["service.name"] == "triage"
    assert b"chest_pain" not in b"".join(request.SerializeToString() for _, request in collector.received)

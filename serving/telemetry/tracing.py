"""OpenTelemetry traces, without evidence: a span for each call, below the caller's, and one for each of its stages.

Needs the extra `tracing`. OpenTelemetry's own environment variables set sampling, limits and the service's name
(OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME and others).
"""

import importlib.metadata
import os
from typing import TYPE_CHECKING

from schemas.errors import InputError
from serving.call import Call
from triage_runtime.command_line.extras import missing

if TYPE_CHECKING:  # an extra
    from opentelemetry.sdk.trace.export import SpanExporter

_GROUP = "opentelemetry_traces_exporter"
_SERVER_ERRORS = ("UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS")


class Tracing:
    """Makes the spans of one server, and passes them to an exporter in a separate thread."""

    def __init__(self, exporter: "SpanExporter"):
        from opentelemetry import trace
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        named = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: "triage"}
        self._provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("serving")
        self._propagator = TraceContextTextMapPropagator()
        self._trace = trace

    def begin(self, call: Call) -> None:
        """Begins the span of `call`, below the one that `traceparent` in its metadata names."""
        carrier = {key: value for key, value in call.request.metadata or () if isinstance(value, str)}
        name = call.request.method[1:]
        service, _, method = name.partition("/")
        call.span = self._tracer.start_span(
            name,
            self._propagator.extract(carrier),
            kind=self._trace.SpanKind.SERVER,
            attributes={"rpc.system": "grpc", "rpc.service": service, "rpc.method": method},
        )
        passed_on: dict[str, str] = {}
        self._propagator.inject(passed_on, self._trace.set_span_in_context(call.span))
        call.outgoing += tuple(passed_on.items())

    def record_stages(self, call: Call) -> None:
        """Adds a span for each stage."""
        if call.span is None or not call.span.is_recording():
            return
        below = self._trace.set_span_in_context(call.span)
        arrived = call.span.start_time
        for stage, begin, end in call.stages:
            start, stop = (arrived + int((moment - call.request.arrived) * 1e9) for moment in (begin, end))
            self._tracer.start_span(stage, below, start_time=start).end(stop)

    def end(self, call: Call, code: str) -> None:
        """Ends the span of `call` with the gRPC status `code`."""
        span = call.span
        if span is None:
            return
        for name, value in (
            ("rpc.grpc.status_code", code),
            ("triage.request_id", call.request.id),
            ("triage.model_name", call.model_name),
            ("triage.model_version", call.model_version),
            ("triage.states", call.states),
            ("triage.reason", call.reason),
        ):
            if value:
                span.set_attribute(name, value)
        if code in _SERVER_ERRORS:
            span.set_status(self._trace.StatusCode.ERROR)
        span.end()

    def close(self) -> None:
        """Exports the waiting spans, and ends."""
        self._provider.shutdown()


def exporter_of(name: str) -> "SpanExporter":
    """Returns the exporter that an installed package registers as `name`, as OpenTelemetry's own tools do.

    Raises:
        InputError: OpenTelemetry is not installed, or the exporter does not exist or start.
    """
    try:
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError as error:
        raise missing("opentelemetry-sdk", "--traces", "tracing") from error
    exporters = {entry.name: entry for entry in importlib.metadata.entry_points(group=_GROUP)}
    if name not in exporters:
        there = ", ".join(sorted(exporters))
        raise InputError(
            f"--traces {name}: no such exporter: installed are {there}: install the package that provides it"
        )
    try:
        return exporters[name].load()()
    except Exception as error:  # raised by another package
        raise InputError(f"--traces {name}: the exporter does not start: {type(error).__name__}: {error}") from error

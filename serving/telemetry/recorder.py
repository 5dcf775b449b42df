"""What the server keeps of its calls, for those who run it: metrics, log lines, traces and an audit log."""

import logging
import pathlib
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from serving.call import Call, current
from serving.config import ServeConfig
from serving.telemetry.metrics import Metrics
from triage.v1 import triage_pb2

if TYPE_CHECKING:  # brings in TensorFlow
    from tensorflow_serving.apis import predict_pb2

    from serving.models.versions import Versions
    from serving.telemetry.audit import AuditLog
    from serving.telemetry.tracing import Tracing

_CALLS = logging.getLogger("serving.calls")


class Telemetry:
    """The one place that a call, an answer or a run of the model is told; without arguments it keeps nothing.

    Args:
        metrics: where to count, None for nowhere.
        log_calls: whether each call is a line in the log.
        audit: where to record answers, None for nowhere.
        tracing: what makes spans of calls, None for none.
    """

    def __init__(
        self,
        metrics: Metrics | None = None,
        log_calls: bool = False,
        audit: "AuditLog | None" = None,
        tracing: "Tracing | None" = None,
    ):
        self._tracing = tracing
        self.metrics = metrics
        self._audit = audit
        self._log_calls = log_calls

    @classmethod
    def of(cls, config: ServeConfig) -> "Telemetry":
        """Returns the telemetry that `config` asks for.

        Raises:
            InputError: the directory of the audit log cannot be written, or there is no such exporter of traces.
        """
        metrics, audit, tracing = None, None, None
        if config.metrics_port >= 0:
            metrics = Metrics(config.model_name)
        if config.traces:
            from serving.telemetry.tracing import Tracing, exporter_of  # brings in an extra

            tracing = Tracing(exporter_of(config.traces))
        if config.audit_log:
            from serving.telemetry.audit import AuditLog  # brings in TensorFlow

            rotation = (config.audit_file_bytes, config.audit_files)
            count = None if metrics is None else metrics.count_audit_records
            audit = AuditLog(pathlib.Path(config.audit_log), config.model_name, config.audit_percent, rotation, count)
        return cls(metrics, config.log_calls, audit, tracing)

    def watch(self, versions: "Versions") -> None:
        """Tells from now on how the versions are, see `Metrics.watch`."""
        if self.metrics is not None:
            self.metrics.watch(versions)

    def close(self) -> None:
        """Hands over what waits, and ends."""
        if self._audit is not None:
            self._audit.close()
        if self._tracing is not None:
            self._tracing.close()

    def begin(self, call: Call, metadata: Any) -> None:
        """Takes a call with its metadata, (key, value) pairs, before anything runs for it."""
        if self._tracing is not None:
            self._tracing.begin(call, metadata)

    def record_answers(
        self, states: Sequence[triage_pb2.EvidenceState], responses: Sequence[triage_pb2.TriageResponse]
    ) -> None:
        """Takes what one version answered in the current call; there is at least one answer."""
        call = current()
        call.model_version = responses[0].model_version
        call.states += len(responses)
        if self.metrics is not None:
            self.metrics.count_answers(responses)
        if self._audit is not None:
            self._audit.record_answers(call, states, responses)

    def record_run(self, version: str, signature: str, states: int) -> None:
        """Takes one run of the model for that many evidence states, of one call or of several."""
        if self.metrics is not None:
            self.metrics.observe_run(version, signature, states)

    def record_predict(
        self,
        request: "predict_pb2.PredictRequest",
        response: "predict_pb2.PredictResponse",
        decisions: Sequence[triage_pb2.TriageResponse] = (),
    ) -> None:
        """Takes what Predict answered in the current call; only metrics need `decisions`, what was decided."""
        call = current()
        call.model_version = str(response.model_spec.version.value)
        call.signature = response.model_spec.signature_name
        sizes = [tensor.tensor_shape.dim[0].size for tensor in response.outputs.values() if tensor.tensor_shape.dim]
        call.states = max(sizes, default=0)
        self.record_run(call.model_version, call.signature, call.states)
        if self.metrics is not None and decisions:
            self.metrics.count_answers(decisions)
        if self._audit is not None:
            self._audit.record_predict(call, request, response)

    def record_comparison(self, role: str, versions: tuple[str, str], actions: Iterable[tuple[int, int]]) -> None:
        """Takes the actions of two versions on the same states, see `Metrics.compared`."""
        if self.metrics is not None:
            self.metrics.count_comparison(role, versions, actions)

    def record_stages(self, call: Call) -> None:
        """Takes the stages of an answer that was sent, and forgets them for the next one of a stream."""
        if self.metrics is not None:
            self.metrics.observe_stages(call)
        if self._tracing is not None:
            self._tracing.record_stages(call)
        call.stages.clear()

    def end(self, call: Call, kind: str, code: str) -> None:
        """Takes the end of a call with the gRPC status `code`; `kind` is `unary` or `bidi_stream`."""
        seconds = time.perf_counter() - call.arrived
        if self.metrics is not None:
            self.metrics.count_call(call, kind, code, seconds)
            if call.unknown_codes:
                self.metrics.count_refused_codes(call.unknown_codes)
        if self._tracing is not None:
            self._tracing.record_stages(call)
            self._tracing.end(call, code)
        if self._log_calls:
            fields: dict[str, Any] = {"method": call.method, "code": code, "seconds": round(seconds, 6)}
            for name in ("model_version", "states", "reason"):
                if getattr(call, name):
                    fields[name] = getattr(call, name)
            _CALLS.info("call", extra={"fields": fields})

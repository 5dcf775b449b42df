"""Records calls for operators: metrics, log lines, traces and an audit log."""

import logging
import pathlib
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from serving.call import Call, current
from serving.config.settings import ServeConfig
from serving.engine.versions import Versions
from serving.telemetry.metrics import Metrics
from serving.telemetry.tracing import Tracing, exporter_of
from triage.v1 import triage_pb2

if TYPE_CHECKING:
    from serving.telemetry.audit import AuditLog  # loads TensorFlow, an extra

_CALLS = logging.getLogger("serving.calls")


class Telemetry:
    """Records calls, answers and runs of the model; without arguments it records nothing."""

    def __init__(
        self,
        metrics: Metrics | None = None,
        log_calls: bool = False,
        audit: "AuditLog | None" = None,
        tracing: Tracing | None = None,
    ):
        self._tracing = tracing
        self.metrics = metrics
        self._audit = audit
        self._log_calls = log_calls

    @classmethod
    def of(cls, config: ServeConfig) -> "Telemetry":
        """Returns the telemetry that `config` asks for.

        Raises:
            InputError: the audit log cannot be written, or the exporter of traces does not exist or start.
        """
        metrics, audit, tracing = None, None, None
        if config.metrics_port >= 0:
            metrics = Metrics()
        if config.traces:
            tracing = Tracing(exporter_of(config.traces))
        if config.audit_log:
            from serving.telemetry.audit import AuditLog  # loads TensorFlow, an extra

            count = None if metrics is None else metrics.count_audit_records
            audit = AuditLog(pathlib.Path(config.audit_log), config.audit_percent, config.audit_files, count)
        return cls(metrics, config.log_calls, audit, tracing)

    def watch(self, versions: Versions) -> None:
        """Exports the state of a model's versions from now on, see `Metrics.watch`."""
        if self.metrics is not None:
            self.metrics.watch(versions)

    def note_model_config(self, refused: bool) -> None:
        """Records whether the file of models is refused."""
        if self.metrics is not None:
            self.metrics.note_model_config(refused)

    def close(self) -> None:
        """Writes what is waiting, and ends."""
        if self._audit is not None:
            self._audit.close()
        if self._tracing is not None:
            self._tracing.close()

    def begin(self, call: Call) -> None:
        """Records the arrival of a call."""
        if self._tracing is not None:
            self._tracing.begin(call)

    def record_answers(
        self, states: Sequence[triage_pb2.EvidenceState], responses: Sequence[triage_pb2.TriageResponse]
    ) -> None:
        """Records the answers of one version in the current call, at least one."""
        call = current()
        call.model_version = responses[0].model_version
        call.states += len(responses)
        if self.metrics is not None:
            self.metrics.count_answers(call.model_name, responses)
        if self._audit is not None:
            self._audit.record_answers(call, states, responses)

    def record_run(self, version: str, signature: str, states: int) -> None:
        """Records one run of the model of the current call, for a number of evidence states of one or more calls."""
        if self.metrics is not None:
            self.metrics.observe_run(current().model_name, version, signature, states)

    def record_predict(
        self,
        version: str,
        signature: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Mapping[str, np.ndarray],
        decisions: Sequence[triage_pb2.TriageResponse] = (),
    ) -> None:
        """Records what a signature of a version answered in the current call; only metrics need the `decisions`."""
        call = current()
        call.model_version, call.signature = version, signature
        call.states = max((len(values) for values in outputs.values() if values.ndim), default=0)
        self.record_run(call.model_version, call.signature, call.states)
        if self.metrics is not None and decisions:
            self.metrics.count_answers(call.model_name, decisions)
        if self._audit is not None:
            self._audit.record_predict(call, inputs, outputs)

    def record_stages(self, call: Call) -> None:
        """Records the stages of an answer that is to be sent, and clears them for the next answer of a stream."""
        if self.metrics is not None:
            self.metrics.observe_stages(call)
        if self._tracing is not None:
            self._tracing.record_stages(call)
        call.stages.clear()

    def end(self, call: Call, kind: str, code: str) -> None:
        """Records the end of a call with the gRPC status `code`; `kind` is `unary` or `bidi_stream`."""
        request = call.request
        seconds = time.perf_counter() - request.arrived
        if self.metrics is not None:
            self.metrics.count_call(call, kind, code, seconds)
            if call.unknown_codes:
                self.metrics.count_refused_codes(call.model_name, call.unknown_codes)
        if self._tracing is not None:
            self._tracing.record_stages(call)
            self._tracing.end(call, code)
        if self._log_calls:
            fields: dict[str, Any] = {"method": request.method, "code": code, "seconds": round(seconds, 6)}
            if request.peer:
                fields["peer"] = urllib.parse.unquote(request.peer)
            if call.caller != request.peer:
                fields["caller"] = call.caller
            for name in ("model_name", "model_version", "states", "reason"):
                if getattr(call, name):
                    fields[name] = getattr(call, name)
            _CALLS.info("call", extra={"fields": fields})

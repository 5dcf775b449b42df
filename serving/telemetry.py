"""What the server keeps of its calls, for those who run it: metrics and log lines."""

import logging
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from serving.call import Call, current
from serving.metrics import Metrics
from triage.v1 import triage_pb2

if TYPE_CHECKING:  # brings in TensorFlow
    from tensorflow_serving.apis import predict_pb2

    from serving.audit import AuditLog

_CALLS = logging.getLogger("serving.calls")


class Telemetry:
    """The one place that a call, an answer or a run of the model is told; without arguments it keeps nothing.

    Args:
        metrics: where to count, None for nowhere.
        log_calls: whether each call is a line in the log.
        audit: where to record answers, None for nowhere.
    """

    def __init__(self, metrics: Metrics | None = None, log_calls: bool = False, audit: "AuditLog | None" = None):
        self._metrics = metrics
        self._audit = audit
        self._log_calls = log_calls

    def answered(
        self, states: Sequence[triage_pb2.EvidenceState], responses: Sequence[triage_pb2.TriageResponse]
    ) -> None:
        """Takes what one version answered in the current call; there is at least one answer."""
        call = current()
        call.model_version = responses[0].model_version
        call.states += len(responses)
        if self._metrics is not None:
            self._metrics.answered(responses)
        if self._audit is not None:
            self._audit.answered(call, states, responses)

    def model_run(self, version: str, signature: str, states: int) -> None:
        """Takes one run of the model for that many evidence states, of one call or of several."""
        if self._metrics is not None:
            self._metrics.model_run(version, signature, states)

    def predicted(self, request: "predict_pb2.PredictRequest", response: "predict_pb2.PredictResponse") -> None:
        """Takes what Predict answered in the current call."""
        call = current()
        call.model_version = str(response.model_spec.version.value)
        call.signature = response.model_spec.signature_name
        sizes = [tensor.tensor_shape.dim[0].size for tensor in response.outputs.values() if tensor.tensor_shape.dim]
        call.states = max(sizes, default=0)
        self.model_run(call.model_version, call.signature, call.states)
        if self._audit is not None:
            self._audit.predicted(call, request, response)

    def compared(self, role: str, versions: tuple[str, str], actions: Iterable[tuple[int, int]]) -> None:
        """Takes the actions of two versions on the same states, see `Metrics.compared`."""
        if self._metrics is not None:
            self._metrics.compared(role, versions, actions)

    def sent(self, call: Call) -> None:
        """Takes the stages of an answer that was sent, and forgets them for the next one of a stream."""
        if self._metrics is not None:
            self._metrics.stages(call)
        call.stages.clear()

    def ended(self, call: Call, kind: str, code: str) -> None:
        """Takes the end of a call with the gRPC status `code`; `kind` is `unary` or `bidi_stream`."""
        seconds = time.perf_counter() - call.arrived
        if self._metrics is not None:
            self._metrics.handled(call, kind, code, seconds)
            if call.unknown_codes:
                self._metrics.refused_codes(call.unknown_codes)
        if self._log_calls:
            fields: dict[str, Any] = {"method": call.method, "code": code, "seconds": round(seconds, 6)}
            for name in ("model_version", "states", "reason"):
                if getattr(call, name):
                    fields[name] = getattr(call, name)
            _CALLS.info("call", extra={"fields": fields})

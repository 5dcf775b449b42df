"""Prometheus metrics: how calls ended and how long they took, what was decided, and which versions are loaded.

No metric contains evidence or text from callers: labels are names of methods, versions, actions and rules.
"""

import collections
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import prometheus_client
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from serving.call import STAGES, Call
from serving.engine.versions import Versions
from serving.messages import action_label
from triage.v1 import triage_pb2

_CALL_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_STAGE_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
_BATCH_SIZES = tuple(2**power for power in range(11))
_VERSION = ("model_name", "model_version")
_STATES = ("loading", "available", "unloading", "broken")


class Metrics:
    """The metrics of one server, in a separate registry; its methods may be called from any thread."""

    def __init__(self) -> None:
        self._of_versions: list[tuple[Any, Any]] = []
        self._models: list[Versions] = []
        self.registry = CollectorRegistry()
        self.registry.register(_VersionCollector(self._models))
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.PlatformCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)
        call = ("grpc_type", "grpc_service", "grpc_method")
        counter, histogram = (
            functools.partial(self._series, kind) for kind in (prometheus_client.Counter, prometheus_client.Histogram)
        )
        self._handled = counter("grpc_server_handled", "Calls that ended", (*call, "grpc_code"))
        self._handling = histogram(
            "grpc_server_handling_seconds", "Time from a call's arrival to its end", call, buckets=_CALL_SECONDS
        )
        of_signature = (*_VERSION, "signature")
        self._stages = histogram(
            "triage_stage_seconds", "Time per answer by stage", (*of_signature, "stage"), buckets=_STAGE_SECONDS
        )
        self._batches = histogram(
            "triage_batch_size", "Evidence states in one run of the model", of_signature, buckets=_BATCH_SIZES
        )
        self._actions = counter("triage_actions", "Answers by action", (*_VERSION, "action"))
        self._urgencies = counter("triage_urgencies", "Answers by best triage decision", (*_VERSION, "urgency"))
        self._forced = counter("triage_forced_decisions", "Answers for which asking was not possible", _VERSION)
        self._unknown = counter(
            "triage_unknown_codes", "Codes that the model does not know, ignored or refused", ("model_name", "outcome")
        )
        self._conflicting = counter("triage_conflicting_codes", "Codes both present and absent", _VERSION)
        self._rules = counter("triage_rules_fired", "Safety rules that fired", (*_VERSION, "rule_id"))
        self._audit = counter("triage_audit_records", "Audit records by outcome", ("outcome",))
        self._refused = prometheus_client.Gauge(
            "triage_model_config_refused", "1 while the file of models is not what is served", registry=self.registry
        )

    def watch(self, versions: Versions) -> None:
        """Exports states, labels and default of a model's versions, and drops the metrics of versions it forgets."""
        self._models[:] = [*(each for each in self._models if not each.closed), versions]
        versions.on_forget(functools.partial(self._forget, versions.model_name))

    def note_model_config(self, refused: bool) -> None:
        """Records whether the file of models is refused, so that the models before it stay."""
        self._refused.set(refused)

    def count_call(self, call: Call, kind: str, code: str, seconds: float) -> None:
        """Counts a call with the gRPC status `code`; `kind` is `unary` or `bidi_stream`."""
        _, service, method = call.request.method.split("/", 2)
        self._handled(kind, service, method, code).inc()
        self._handling(kind, service, method).observe(seconds)

    def observe_stages(self, call: Call) -> None:
        """Observes the time of each stage of one answer."""
        seconds: dict[str, float] = collections.defaultdict(float)
        for stage, begin, end in call.stages:
            seconds[stage] += end - begin
        for stage in STAGES:
            if stage in seconds:
                self._stages(call.model_name, call.model_version, call.signature, stage).observe(seconds[stage])

    def observe_run(self, model_name: str, version: str, signature: str, states: int) -> None:
        """Observes one run of the model for a number of evidence states."""
        self._batches(model_name, version, signature).observe(states)

    def count_answers(self, model_name: str, responses: Sequence[triage_pb2.TriageResponse]) -> None:
        """Counts what one version decided."""
        named = (model_name, responses[0].model_version)
        for action, count in collections.Counter(response.action for response in responses).items():
            self._actions(*named, action_label(action)).inc(count)
        for urgency, count in collections.Counter(response.best_triage for response in responses).items():
            self._urgencies(*named, action_label(urgency)).inc(count)
        for response in responses:
            if response.forced:
                self._forced(*named).inc()
            if response.unknown_codes:
                self._unknown(model_name, "left_out").inc(len(response.unknown_codes))
            if response.conflicting_codes:
                self._conflicting(*named).inc(len(response.conflicting_codes))
            for rule in response.fired_rules:
                self._rules(*named, rule.rule_id).inc()

    def count_refused_codes(self, model_name: str, number: int) -> None:
        """Counts unknown codes that a call was refused for."""
        self._unknown(model_name, "refused").inc(number)

    def count_audit_records(self, outcome: str, calls: int = 1) -> None:
        """Counts audit records by outcome: `written`, `dropped` or `failed`."""
        self._audit(outcome).inc(calls)

    def _series(self, kind: Any, name: str, text: str, labels: Sequence[str], **more: Any) -> Callable[..., Any]:
        """Registers a metric, and returns what finds its child by label values, faster than the library's `labels`."""
        metric = kind(name, text, labels, registry=self.registry, **more)
        child = functools.cache(metric.labels)
        if set(_VERSION) <= set(labels):
            self._of_versions.append((metric, child))
        return child

    def _forget(self, model_name: str, versions: frozenset[int]) -> None:
        for metric, child in self._of_versions:
            for version in versions:
                metric.remove_by_labels(dict(zip(_VERSION, (model_name, str(version)), strict=True)))
            child.cache_clear()  # counts in one that is forgotten meanwhile are lost


class _VersionCollector(Collector):
    """Exports the state of the versions when Prometheus scrapes."""

    def __init__(self, models: "Sequence[Versions]"):
        self._models = models

    def collect(self) -> Iterable[Metric]:
        """Returns the metrics of the versions as they are now."""
        number = GaugeMetricFamily("triage_versions", "Versions by state", labels=("model_name", "state"))
        state = GaugeMetricFamily("triage_version_state", "1 for each version", labels=(*_VERSION, "state"))
        default = GaugeMetricFamily("triage_default_version", "The version that answers", labels=("model_name",))
        labels = GaugeMetricFamily("triage_version_label", "1 for each label", labels=(*_VERSION, "version_label"))
        for versions in [each for each in self._models if not each.closed]:
            name, counts = versions.model_name, dict.fromkeys(_STATES, 0)
            for status in versions.statuses():
                known = "broken" if status.error else status.state.name.lower()
                if known not in counts:
                    continue  # it has been unloaded
                counts[known] += 1
                state.add_metric((name, str(status.version), known), 1)
            for known, count in counts.items():
                number.add_metric((name, known), count)
            if (version := versions.default) is not None:
                default.add_metric((name,), version)
            for label, version in sorted(versions.labels.items()):
                labels.add_metric((name, str(version), label), 1)
        return (number, state, default, labels)

"""TriageService: checks a request, lets an engine answer it, and turns failures into statuses."""

import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from schemas import features
from schemas.errors import InputError
from serving.call import PARSE, current
from serving.config import ServeConfig
from serving.engine import Engine
from serving.errors import DeadlineError, ExhaustedError, Fault, FaultyRequestError, GoneError
from serving.interview import Interview
from serving.routing import Routing
from serving.safeguards import described_rules
from serving.status import reported, reported_stream
from serving.telemetry import Telemetry
from serving.validation import Rules, check_states
from serving.watcher import Watcher
from triage.v1 import triage_pb2, triage_service_pb2, triage_service_pb2_grpc

_KINDS = {
    "symptom": triage_service_pb2.EVIDENCE_KIND_SYMPTOM,
    "risk_factor": triage_service_pb2.EVIDENCE_KIND_RISK_FACTOR,
}


# ruff would have method names in lower case (N802), but they are the .proto's.
class TriageService(triage_service_pb2_grpc.TriageServiceServicer):
    """Answers `triage.v1.TriageService` from the default version of a model, or its canary."""

    def __init__(self, watcher: Watcher[Any], config: ServeConfig, telemetry: Telemetry | None = None):
        self._watcher = watcher
        self._versions = watcher.versions
        self._config = config
        self._telemetry = telemetry or Telemetry()
        self._routing = Routing(watcher.versions, config.canary_percent, telemetry=self._telemetry)
        self._places = threading.Semaphore(config.max_interviews)

    @reported
    def Triage(  # noqa: N802
        self, request: triage_service_pb2.TriageRequest, context: grpc.ServicerContext
    ) -> triage_pb2.TriageResponse:
        """Answers one evidence state."""
        if not request.HasField("state"):
            raise FaultyRequestError([Fault("state", "missing: set the evidence state to answer", "MISSING_STATE")])
        return self._answer([request.state], request.allow_unknown_codes, context, batch=False)[0]

    @reported
    def BatchTriage(  # noqa: N802
        self, request: triage_service_pb2.BatchTriageRequest, context: grpc.ServicerContext
    ) -> triage_service_pb2.BatchTriageResponse:
        """Answers several evidence states in their order; no states get no responses."""
        responses = self._answer(request.states, request.allow_unknown_codes, context, batch=True)
        return triage_service_pb2.BatchTriageResponse(responses=responses)

    @reported_stream
    def Interview(  # noqa: N802
        self, requests: Iterator[triage_service_pb2.InterviewRequest], context: grpc.ServicerContext
    ) -> Iterator[triage_service_pb2.InterviewResponse]:
        """Conducts an interview with one version of the model; it holds a thread of the server until it ends."""
        remaining = context.time_remaining()
        if remaining is None or remaining > self._config.interview_seconds:
            raise InputError(
                f"deadline: an interview holds a place on the server: set one of at most "
                f"{self._config.interview_seconds:g} s"
            )
        if not self._places.acquire(blocking=False):
            raise ExhaustedError(
                f"{self._config.max_interviews} interviews are under way, more are not taken: try again later, or call "
                "Triage with all that is known"
            )
        try:
            with self._routing.borrow() as engine:
                yield from self._interview(engine, requests, context)
        finally:
            self._places.release()

    def _interview(
        self,
        engine: Engine,
        requests: Iterator[triage_service_pb2.InterviewRequest],
        context: grpc.ServicerContext,
    ) -> Iterator[triage_service_pb2.InterviewResponse]:
        interview = Interview(Rules(engine.vocabulary, self._config.max_batch, self._config.max_evidence))
        for request in requests:
            with current().timed(PARSE):
                state = interview.hear(request)
            (response,) = engine.triage([state], _remaining(context))
            self._told([state], [response])
            message = interview.answer(response)
            yield message
            if message.ended:
                return

    @reported
    def GetModelInfo(  # noqa: N802
        self, request: triage_service_pb2.GetModelInfoRequest, context: grpc.ServicerContext
    ) -> triage_service_pb2.GetModelInfoResponse:
        """Tells which model answers, and how it was made."""
        with self._versions.borrow_default() as engine:
            info = engine.info
        return triage_service_pb2.GetModelInfoResponse(
            model_version=info.model_version,
            vocabulary_fingerprint=info.vocabulary_fingerprint,
            data_fingerprint=info.data_fingerprint,
            evidence_count=info.evidence_count,
            max_questions=info.max_questions,
            manifest_json=info.manifest_json,
            rules=described_rules(info),
            novelty_threshold=info.novelty_threshold,
        )

    @reported
    def GetVocabulary(  # noqa: N802
        self, request: triage_service_pb2.GetVocabularyRequest, context: grpc.ServicerContext
    ) -> triage_service_pb2.GetVocabularyResponse:
        """Lists the evidence that the model knows, in the order of its state vector."""
        with self._versions.borrow_default() as engine:
            vocabulary = engine.vocabulary
        entries = [
            triage_service_pb2.VocabularyEntry(
                code=entry.code, kind=_KINDS[entry.kind], name=entry.name, question=entry.question
            )
            for entry in vocabulary
        ]
        return triage_service_pb2.GetVocabularyResponse(entries=entries, vocabulary_fingerprint=vocabulary.fingerprint)

    def _answer(
        self,
        states: Sequence[triage_pb2.EvidenceState],
        allow_unknown_codes: bool,
        context: grpc.ServicerContext,
        batch: bool,
    ) -> list[triage_pb2.TriageResponse]:
        """Checks and answers states by one version: by the next one, if the first is gone from a remote engine."""
        answer = functools.partial(self._answer_once, states, allow_unknown_codes, context, batch)
        try:
            return answer()
        except GoneError:
            self._watcher.look()
            return answer()

    def _answer_once(
        self,
        states: Sequence[triage_pb2.EvidenceState],
        allow_unknown_codes: bool,
        context: grpc.ServicerContext,
        batch: bool,
    ) -> list[triage_pb2.TriageResponse]:
        with self._routing.borrow() as engine:
            rules = Rules(engine.vocabulary, self._config.max_batch, self._config.max_evidence, allow_unknown_codes)
            with current().timed(PARSE):
                check_states(states, rules, batch)
            if not states:
                return []
            responses = engine.triage(states, _remaining(context))
        self._told(states, responses)
        return responses

    def _told(self, states: Sequence[triage_pb2.EvidenceState], responses: Sequence[triage_pb2.TriageResponse]) -> None:
        call = current()
        call.signature = features.SERVING_DEFAULT
        run_states = len(states) if call.run_states is None else call.run_states
        if run_states:
            self._telemetry.model_run(responses[0].model_version, features.SERVING_DEFAULT, run_states)
        self._telemetry.answered(states, responses)
        self._routing.show(states, responses)


def _remaining(context: grpc.ServicerContext) -> float | None:
    """Returns the seconds until the caller's deadline, None where there is none.

    Raises:
        DeadlineError: it has passed, and nobody waits for the model any more.
    """
    remaining = context.time_remaining()
    if remaining is not None and remaining <= 0:
        raise DeadlineError.before_the_model()
    return remaining

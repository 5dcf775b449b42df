"""TriageService: checks a request, lets an engine answer it, and turns failures into statuses."""

from typing import Any

import grpc

from schemas.errors import InputError
from serving.config import ServeConfig
from serving.engine import Engine
from serving.status import reported
from serving.validation import Rules, check_states
from serving.versions import Versions
from triage.v1 import triage_pb2, triage_service_pb2, triage_service_pb2_grpc

_KINDS = {
    "symptom": triage_service_pb2.EVIDENCE_KIND_SYMPTOM,
    "risk_factor": triage_service_pb2.EVIDENCE_KIND_RISK_FACTOR,
}


# ruff would have method names in lower case (N802), but they are the .proto's.
class TriageService(triage_service_pb2_grpc.TriageServiceServicer):
    """Answers `triage.v1.TriageService` from the default version of a model."""

    def __init__(self, versions: Versions[Any], config: ServeConfig):
        self._versions = versions
        self._config = config

    @reported
    def Triage(  # noqa: N802
        self, request: triage_service_pb2.TriageRequest, context: grpc.ServicerContext
    ) -> triage_pb2.TriageResponse:
        """Answers one evidence state."""
        if not request.HasField("state"):
            raise InputError("state: missing: set the evidence state to answer")
        with self._versions.borrow_default() as engine:
            check_states([request.state], self._rules(engine, request.allow_unknown_codes), batch=False)
            return engine.triage([request.state])[0]

    @reported
    def BatchTriage(  # noqa: N802
        self, request: triage_service_pb2.BatchTriageRequest, context: grpc.ServicerContext
    ) -> triage_service_pb2.BatchTriageResponse:
        """Answers several evidence states in their order; no states get no responses."""
        with self._versions.borrow_default() as engine:
            check_states(request.states, self._rules(engine, request.allow_unknown_codes), batch=True)
            responses = engine.triage(request.states) if request.states else []
        return triage_service_pb2.BatchTriageResponse(responses=responses)

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

    def _rules(self, engine: Engine, allow_unknown_codes: bool) -> Rules:
        return Rules(engine.vocabulary, self._config.max_batch, self._config.max_evidence, allow_unknown_codes)

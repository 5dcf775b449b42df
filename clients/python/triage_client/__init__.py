"""A client of triage.v1.TriageService; needs grpcio and protobuf only. See README.md.

Research software for decision support. It is not a medical device and does not replace a clinician.
"""

from triage_client.asynchronous import AsyncInterview, AsyncTriageClient
from triage_client.client import Interview, TriageClient
from triage_client.connection import tls_credentials
from triage_client.details import FieldViolation
from triage_client.errors import (
    CallCancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    TriageError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from triage_client.messages import evidence_state
from triage_client.v1.triage_pb2 import (
    DeferralReason,
    Evidence,
    EvidenceState,
    EvidenceStatus,
    NextQuestion,
    NextStep,
    QuestionReason,
    TriageAction,
    TriageResponse,
)

__all__ = [
    "AsyncInterview",
    "AsyncTriageClient",
    "CallCancelledError",
    "DeadlineExceededError",
    "DeferralReason",
    "Evidence",
    "EvidenceState",
    "EvidenceStatus",
    "FailedPreconditionError",
    "FieldViolation",
    "InternalError",
    "Interview",
    "InvalidArgumentError",
    "NextQuestion",
    "NextStep",
    "NotFoundError",
    "PermissionDeniedError",
    "QuestionReason",
    "ResourceExhaustedError",
    "TriageAction",
    "TriageClient",
    "TriageError",
    "TriageResponse",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "evidence_state",
    "tls_credentials",
]

"""`triage.v1.TriageService`: from messages to the model and back."""

from serving.triage.deferral import deferral_reason
from serving.triage.service import TriageService

__all__ = [
    "TriageService",
    "deferral_reason",
]

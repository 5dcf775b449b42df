"""`triage.v1.TriageService`: from messages to the model and back."""

from serving.triage.service import TriageService

__all__ = [
    "TriageService",
]

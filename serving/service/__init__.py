"""`triage.v1.TriageService`: from messages to the model and back."""

from serving.service.service import TriageService

__all__ = [
    "TriageService",
]

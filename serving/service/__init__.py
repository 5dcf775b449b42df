"""`triage.v1.TriageService`: from messages to the model and back."""

from serving.service.service import TriageService, vocabulary_message

__all__ = [
    "TriageService",
    "vocabulary_message",
]

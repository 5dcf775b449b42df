"""`triage.v1.TriageService`: from messages to the model and back."""

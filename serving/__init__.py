"""Serves an exported model as triage.v1.TriageService, and calls such a server. Needs neither TF-Agents nor Keras."""

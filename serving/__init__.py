"""Serves an exported model as triage.v1.TriageService, and calls it. Needs neither TF-Agents nor Keras."""

"""`triage bench serve`."""

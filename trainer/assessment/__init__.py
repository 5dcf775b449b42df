"""`triage evaluate`: the figures of one agent and the report on it, its questions, its textbook cases."""

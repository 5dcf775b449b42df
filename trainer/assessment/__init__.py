"""`triage evaluate`: the figures of one agent, its questions, its textbook cases."""

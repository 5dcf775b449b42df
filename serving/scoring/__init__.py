"""`triage score`: a model's answers to files of stored cases, without a server."""

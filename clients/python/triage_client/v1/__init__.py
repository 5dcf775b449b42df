"""The messages and the stub of triage.v1, generated from proto/triage/v1/*.proto by clients/python/generate.py."""

"""Generated messages and stubs of `triage.v1`."""

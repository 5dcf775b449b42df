"""Commands that call a server: `triage ask` and `triage health`."""

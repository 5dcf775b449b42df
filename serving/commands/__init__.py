"""The commands of `triage` that serve a model, call a server or answer without one: one module each."""

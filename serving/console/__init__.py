"""`triage console`: pages in a browser on which to try a model."""

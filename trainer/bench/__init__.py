"""`triage bench train`: our training step beside those of other libraries and the machine's own limits, in one run."""

"""`triage bench train`: our training step beside those of other libraries and the limits of the machine, in one run."""

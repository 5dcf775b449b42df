"""A run of `triage train`: its job directory, checkpoints and operating point, and the interviews of the agent."""

"""Supervised baselines: ensembles on whole and on partial evidence, and agents that learn only when to stop."""

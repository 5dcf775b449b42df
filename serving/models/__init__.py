"""Engines that answer evidence states, and the versions of a model as they come and go."""

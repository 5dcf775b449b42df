"""Engines that run a model, and the versions of a model that are loaded."""

"""Exports versions: with their model card, past a gate that compares them, and as TFLite files for phones."""

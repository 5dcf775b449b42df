"""Checks of a data directory: statistics, anomalies, near-duplicates, and validation against the schema."""

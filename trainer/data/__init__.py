"""Vignettes: input formats, checks, the split, the data directory of TFRecords, and evidence as the agent's state."""

"""Vignettes: formats, checks, the split, and the data directory of TFRecords."""

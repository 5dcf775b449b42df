"""Vignettes: their formats, how they are checked and split, and the data directory of TFRecords they become."""

"""A version of a model: its signatures, LiteRT file, warm-up and signature, past a gate that compares versions."""

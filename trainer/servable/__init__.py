"""The SavedModel: signatures, the LiteRT file beside it, warm-up requests."""

"""A version of a model: the signatures of its SavedModel, its LiteRT file and its warm-up requests."""

"""What leaves the trainer: the SavedModel with its card and gate, and the TFLite file."""

"""Safety rules and novelty, as parts of the TensorFlow graph."""

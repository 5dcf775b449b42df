"""TensorFlow Serving's own services on the same models."""

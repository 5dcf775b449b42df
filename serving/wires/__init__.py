"""The same models over other wires: JSON over HTTP, TensorFlow Serving's services."""

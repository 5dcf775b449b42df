"""The same models by other protocols: JSON over HTTP, TensorFlow Serving's services, the Open Inference Protocol."""

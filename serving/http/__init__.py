"""The same answers over HTTP: our own API, TensorFlow Serving's REST API, and Vertex AI."""

from serving.http.application import application_of
from serving.http.endpoints import Endpoints

__all__ = ["Endpoints", "application_of"]

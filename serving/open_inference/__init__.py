"""The Open Inference Protocol, version 2, on the same models."""

from serving.open_inference.models import Answer, OpenModels, described_server
from serving.open_inference.service import SERVICE, InferenceService
from serving.open_inference.tensors import Given, datatype_of_array, dtype_of, to_raw

__all__ = [
    "SERVICE",
    "Answer",
    "Given",
    "InferenceService",
    "OpenModels",
    "datatype_of_array",
    "described_server",
    "dtype_of",
    "to_raw",
]

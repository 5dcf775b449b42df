"""TensorFlow Serving's own services on the same models."""

from serving.tf_serving.model_service import SERVICE as MODEL_SERVICE
from serving.tf_serving.model_service import ModelService
from serving.tf_serving.prediction_service import SERVICE as PREDICTION_SERVICE
from serving.tf_serving.prediction_service import PredictionService

__all__ = [
    "MODEL_SERVICE",
    "PREDICTION_SERVICE",
    "ModelService",
    "PredictionService",
]

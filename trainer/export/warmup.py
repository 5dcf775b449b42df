"""Warm-up requests, which TensorFlow Serving runs on a new version before it serves it.

Without them, the first real request waits until every operation is initialised.
"""

import pathlib
from collections.abc import Iterator

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from schemas import features
from schemas.evidence import Vocabulary
from triage.v1 import triage_pb2

BATCH_SIZES = (1, 8)


def write_requests(path: pathlib.Path, vocabulary: Vocabulary, model_name: str) -> None:
    """Writes a TFRecord of PredictionLog: one request for each signature and size in `BATCH_SIZES`.

    Args:
        path: the file, `assets.extra/tf_serving_warmup_requests` of a version; its folder is created.
        vocabulary: of the model; requests use its first code.
        model_name: the name under which a server offers the model.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for request in requests(vocabulary, model_name):
            log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
            writer.write(log.SerializeToString())


def requests(vocabulary: Vocabulary, model_name: str) -> Iterator[predict_pb2.PredictRequest]:
    """Yields one request for each signature and size in `BATCH_SIZES`."""
    for batch in BATCH_SIZES:
        for signature, inputs in _inputs(vocabulary, batch).items():
            request = predict_pb2.PredictRequest()
            request.model_spec.name = model_name
            request.model_spec.signature_name = signature
            for name, tensor in inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(tensor))
            yield request


def _inputs(vocabulary: Vocabulary, batch: int) -> dict[str, dict[str, tf.Tensor]]:
    """Returns the input tensors of each signature: the start of an interview, one piece of evidence present."""
    code = vocabulary.codes[0]
    evidence = triage_pb2.Evidence(code=code, status=triage_pb2.EVIDENCE_STATUS_PRESENT)
    message = triage_pb2.EvidenceState(evidence=[evidence]).SerializeToString()
    questions_asked = tf.zeros([batch], tf.int32)
    return {
        features.SERVING_DEFAULT: {
            features.PRESENT: tf.fill([batch, 1], code),
            features.ABSENT: tf.fill([batch, 1], ""),
            features.QUESTIONS_ASKED: questions_asked,
        },
        features.TRIAGE: {features.EVIDENCE_STATES: tf.fill([batch], message)},
        features.STATE: {
            features.STATES: tf.repeat(tf.one_hot([0], len(vocabulary)), batch, axis=0),
            features.QUESTIONS_ASKED: questions_asked,
        },
    }

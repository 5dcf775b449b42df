"""Warm-up requests, read back as a server reads them and replayed on a model."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from tests.builders import network_of, symptoms
from trainer.export import saved_model, signatures

VOCABULARY = symptoms("cough", "fever")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    VOCABULARY.save(folder / "vocabulary.csv")
    identity = signatures.Identity("1", VOCABULARY.fingerprint, len(VOCABULARY), 23)
    signatures.write(folder / "saved", network_of((np.ones([2, 5]), 0)), folder / "vocabulary.csv", identity)
    return tf.saved_model.load(str(folder / "saved"))


@pytest.fixture(scope="module")
def requests(tmp_path_factory):
    path = tmp_path_factory.mktemp("version") / "assets.extra" / "tf_serving_warmup_requests"
    saved_model.write_warmup_requests(path, VOCABULARY, "nurse")
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    return [prediction_log_pb2.PredictionLog.FromString(record).predict_log.request for record in records]


def test_there_is_one_request_for_each_signature_and_size(requests):
    assert {request.model_spec.name for request in requests} == {"nurse"}
    assert sorted(
        (request.model_spec.signature_name, next(iter(request.inputs.values())).tensor_shape.dim[0].size)
        for request in requests
    ) == [(signature, size) for signature in sorted(signatures.SIGNATURES) for size in saved_model.WARMUP_BATCH_SIZES]


def test_every_request_runs_on_a_model_of_the_vocabulary(requests, model):
    for request in requests:
        inputs = {name: tf.constant(tf.make_ndarray(tensor)) for name, tensor in request.inputs.items()}
        outputs = model.signatures[request.model_spec.signature_name](**inputs)
        size = next(iter(inputs.values())).shape[0]
        assert all(output.shape[0] == size for output in outputs.values())
        assert "unknown_codes" not in outputs or not tf.size(outputs["unknown_codes"])

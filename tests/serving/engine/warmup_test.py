"""A version's own warm-up requests, run before it answers anybody."""

import dataclasses
import shutil

import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from schemas.errors import InputError
from serving.engine.engine import warm_up
from serving.engine.saved_model import SavedModelEngine, run_warmup_requests
from serving.messages import state_message


@pytest.fixture
def version(model_base_path, tmp_path):
    return shutil.copytree(model_base_path / "3", tmp_path / "3")


class Counting(SavedModelEngine):
    """An engine that records which signatures ran on how many rows."""

    def __init__(self, folder):
        super().__init__(folder)
        self.calls = []

    def predict(self, signature, inputs):
        self.calls.append((signature, len(next(iter(inputs.values())))))
        return super().predict(signature, inputs)


def test_each_request_of_the_export_is_run(version):
    engine = Counting(version)
    assert run_warmup_requests(engine, version) == 6  # three signatures, each with one row and with eight
    assert sorted(engine.calls) == [
        (signature, rows) for signature in ("serving_default", "state", "triage") for rows in (1, 8)
    ]


def write(version, *logs):
    with tf.io.TFRecordWriter(str(version / "assets.extra" / "tf_serving_warmup_requests")) as writer:
        for log in logs:
            writer.write(log.SerializeToString())


@pytest.mark.parametrize("signature", ["nothing", "state"])
def test_a_request_that_the_model_does_not_answer_is_reported(version, signature):
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.model_spec.signature_name = signature
    log.predict_log.request.inputs["states"].CopyFrom(tf.make_tensor_proto([1.0]))
    write(version, log)
    with pytest.raises(InputError, match="tf_serving_warmup_requests: request 1"):
        run_warmup_requests(SavedModelEngine(version), version)


def test_the_typed_service_is_warmed_up_with_known_evidence_and_with_questions_if_there_are_any(version):
    class Asked:
        def __init__(self, engine, questions):
            self.vocabulary, self.info = engine.vocabulary, dataclasses.replace(engine.info, questions=questions)
            self.asked = []

        def triage(self, states, wishes):
            self.asked.append((list(states), [wish.questions for wish in wishes]))

    for questions in (False, True):
        engine = Asked(SavedModelEngine(version), questions)
        warm_up(engine)
        warm_up(engine, 2)
        known = state_message(["chest_pain"])
        assert engine.asked == [([known], [questions]), ([known] * 2, [questions] * 2)]

"""A SavedModel in a session against TensorFlow's own way to load and run it."""

import os

import numpy as np
import pytest
import tensorflow as tf

from schemas import features
from schemas.parity import probes
from serving.engine.saved_model import SavedModel
from serving.messages import state_message


@pytest.fixture(scope="module")
def folder(model_base_path):
    return model_base_path / "3"


@pytest.fixture(scope="module")
def loaded(folder):
    return SavedModel(folder)


@pytest.fixture(scope="module")
def functions(folder):
    """What TensorFlow itself makes of the SavedModel; its signatures alone would not keep its variables alive."""
    return tf.saved_model.load(os.fspath(folder))


STATES, ASKED = probes(3, 10, 17)
CODES = np.array([["fever", "gout"], ["chest_pain", ""], ["", ""]], object)
MESSAGES = [state_message(["fever"], ["smoker"]), state_message([]), state_message(["gout"], [], 10)]


@pytest.mark.parametrize(
    ("signature", "inputs"),
    [
        (features.STATE, {features.STATES: STATES, features.QUESTIONS_ASKED: ASKED}),
        (features.STATE, {features.STATES: STATES[:0], features.QUESTIONS_ASKED: ASKED[:0]}),
        (
            features.SERVING_DEFAULT,
            {features.PRESENT: CODES, features.ABSENT: CODES[::-1], features.QUESTIONS_ASKED: ASKED[:3]},
        ),
        (
            features.TRIAGE,
            {features.EVIDENCE_STATES: np.array([message.SerializeToString() for message in MESSAGES], object)},
        ),
    ],
    ids=["state", "no state", "serving_default", "triage"],
)
def test_each_signature_answers_as_the_functions_of_the_saved_model_do(loaded, functions, signature, inputs):
    expected = functions.signatures[signature](**{alias: tf.constant(value) for alias, value in inputs.items()})
    outputs = loaded.run(signature, inputs)
    assert outputs.keys() == expected.keys()
    for alias, tensor in expected.items():
        if tensor.dtype == tf.float32:
            np.testing.assert_allclose(outputs[alias], tensor.numpy(), atol=1e-6)
        else:
            np.testing.assert_array_equal(outputs[alias], tensor.numpy())

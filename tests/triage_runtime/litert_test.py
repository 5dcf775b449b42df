"""Running a TFLite file, and what is wrong with one that does not run."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from schemas.errors import InputError
from triage_runtime.litert import LiteRtModel

STATES = np.array([[1, -1, 0], [0, 0, 1]], np.float32)


@pytest.fixture(scope="module")
def tflite_file(tmp_path_factory):
    """A TFLite file whose signature doubles the states, and is forced at 5 questions."""
    folder = str(tmp_path_factory.mktemp("saved_model"))
    specs = [tf.TensorSpec([None, 3], tf.float32, "states"), tf.TensorSpec([None], tf.int32, "questions_asked")]
    module = tf.Module()
    module.state = tf.function(
        lambda states, questions_asked: {"q_values": tf.matmul(states, 2 * tf.eye(3)), "forced": questions_asked >= 5},
        input_signature=specs,
    )
    tf.saved_model.save(module, folder, signatures={"state": module.state})
    return tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=["state"]).convert()


def test_a_model_runs_its_signature(tflite_file):
    outputs = LiteRtModel(tflite_file).run(STATES, np.array([4, 5], np.int32))
    np.testing.assert_array_equal(outputs["q_values"], [[2, -2, 0], [0, 0, 2]])
    assert outputs["forced"].tolist() == [False, True]


def test_the_tensors_are_those_of_the_signature(tflite_file):
    tensors = LiteRtModel(tflite_file).tensors
    assert {name: tensor["dtype"] for name, tensor in tensors["inputs"].items()} == {
        "questions_asked": "int32", "states": "float32",
    }  # fmt: skip
    assert list(tensors["outputs"]) == ["forced", "q_values"]


def test_states_of_another_width_are_an_input_error(tflite_file):
    with pytest.raises(InputError, match="LiteRT"):
        LiteRtModel(tflite_file).run(np.zeros([1, 7], np.float32), np.zeros(1, np.int32))


@pytest.mark.parametrize("damaged", [b"", b"no flatbuffer", b"\x1c\0\0\0TFL3" + b"\0" * 40])
def test_bytes_that_are_not_a_tflite_file_are_refused(damaged):
    with pytest.raises(InputError, match="LiteRT"):
        LiteRtModel(damaged)


def test_an_installation_without_litert_is_reported(tflite_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    with pytest.raises(InputError, match="not installed"):
        LiteRtModel(tflite_file)

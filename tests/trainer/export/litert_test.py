import numpy as np
import pytest
import tensorflow as tf

from trainer.export.conversion import convert
from trainer.export.litert import as_version, run_each
from trainer.export.policy import play
from trainer.vignettes.arrays import VignetteArrays
from triage_runtime.litert import LiteRtModel

SEEDS = [3, 4]


@pytest.fixture(scope="module")
def model(version):
    return LiteRtModel(convert(version, "none"))


def test_the_signature_is_that_of_the_savedmodel_with_a_batch_of_one(model):
    assert model.tensors == {
        "inputs": {
            "questions_asked": {"dtype": "int32", "shape": [1]},
            "states": {"dtype": "float32", "shape": [1, 12]},
        },
        "outputs": {
            "action": {"dtype": "int32", "shape": [1]},
            "best_triage": {"dtype": "int32", "shape": [1]},
            "forced": {"dtype": "bool", "shape": [1]},
            "q_values": {"dtype": "float32", "shape": [1, 5]},
        },
    }


def test_answers_are_in_the_order_of_the_states(model):
    states = np.eye(12, dtype=np.float32)[:3]
    together = run_each(model, states, np.array([0, 5, 0], np.int32))
    assert together["q_values"].shape == (3, 5)
    assert together["forced"].tolist() == [False, True, False]  # the version triages at 5 questions
    alone = model.run(states[1:2], np.array([5], np.int32))
    np.testing.assert_array_equal(together["q_values"][1:2], alone["q_values"])


def test_a_file_plays_vignettes_as_its_version_does(version, model, vignettes_of):
    generator = np.random.default_rng(0)
    rows = [((generator.permutation(12)[:4] + 1).tolist(), [1, 0, 1, 0]) for _ in range(30)]
    arrays = VignetteArrays(np.arange(30).astype(object), *vignettes_of(rows), ((),) * 30)
    expected = play(version, arrays, version.vocabulary, SEEDS)
    outcomes = play(as_version(model, version), arrays, version.vocabulary, SEEDS)
    assert 0 < expected.questions.mean() < 5  # some ask, some do not
    for name in ("decisions", "questions", "evidence_seen", "forced"):
        np.testing.assert_array_equal(getattr(outcomes, name), getattr(expected, name))
    np.testing.assert_allclose(outcomes.q_values, expected.q_values, atol=1e-5)


def test_a_step_without_a_new_state_has_no_answers(version, model):
    answer = as_version(model, version).signature(
        states=tf.zeros([0, 12]), questions_asked=tf.zeros([0], tf.int32)
    )  # as an evaluation asks where every question was in vain
    assert (answer["action"].shape, answer["q_values"].shape) == ((0,), (0, 5))

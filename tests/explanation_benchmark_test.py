"""benchmarks/explanations.py: on a network in which it is known what each piece does."""

import pathlib
import runpy
import types

import numpy as np
import pytest
import tensorflow as tf

from schemas.evidence import Evidence, Vocabulary
from trainer.runs.job import TrainedNetwork
from trainer.vignettes.arrays import VignetteArrays

ROOT = pathlib.Path(__file__).resolve().parents[1]
explanations = types.SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks" / "explanations.py")))
VOCABULARY = Vocabulary(Evidence(f"e{cell}", "symptom", f"e{cell}", f"e{cell}?") for cell in range(3))


class Network:
    """Red is likely with the first piece, and Yellow else; one of the others moves it a little, the last not at all."""

    def __init__(self, weights):
        self._weights = tf.constant(weights)[:, tf.newaxis]

    def __call__(self, states):
        red = tf.matmul(states, self._weights)
        others = tf.fill([len(states), 6], 0.1)
        return tf.concat([tf.zeros([len(states), 5]), red, 0.3 + 0 * red, others], axis=1)


def agent(*weights):
    return TrainedNetwork(Network(weights), VOCABULARY, {}, 23, "sha256:data", {}, {})


@pytest.fixture(scope="module")
def vignettes():
    """All three pieces, in every vignette."""
    count = 40
    return VignetteArrays(
        np.array([f"v{row}" for row in range(count)], object), np.arange(count + 1) * 3,
        np.tile([1, 2, 3], count).astype(np.int16), np.ones([count, 4], np.uint8), ((),) * count,
    )  # fmt: skip


def test_the_piece_with_the_largest_effect_moves_the_probabilities_more(vignettes):
    shares = explanations.measured(agent(0.4, 0.05, 0.0), agent(0.4, 0.05, 0.0), vignettes, 120, seed=0)
    for measure in ("more mean change", "more largest change", "more divergence"):
        assert shares[measure].mean == 1
    # Without the first piece Red falls from .4 or more to .05 at most, below Yellow: so in all moments that have it.
    known = shares["top piece turns the decision"].mean
    assert 0.5 < known < 1  # two of three pieces or all: in at least two of three moments
    assert shares["another piece turns it"].mean == 0


def test_another_agent_may_rest_on_other_pieces(vignettes):
    shares = explanations.measured(agent(0.4, 0.05, 0.0), agent(0.0, 0.05, 0.4), vignettes, 120, seed=0)
    assert shares["more mean change"].mean < 0.5

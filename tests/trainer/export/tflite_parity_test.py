"""What parity measures, on answers that can be counted by hand."""

import re

import numpy as np
import pytest
import tensorflow as tf

from schemas.answer import NOVELTY_BOUND
from schemas.errors import InputError
from schemas.parity import random_states
from schemas.triage import Action
from tests.builders import network_of, trained_agent, write_version
from trainer.config import NetworkConfig
from trainer.dyqn.network import build_network
from trainer.export.conversion import QUANTIZATIONS, convert
from trainer.export.policy import load_version
from trainer.export.tflite_file import BOUNDS, compare, statement
from trainer.graph import novelty
from triage_runtime.litert import LiteRtModel

Q_VALUES = np.array([0.2, 0.9, 0.5, 0.1, 0.6], np.float32)  # Yellow


class Answers:
    """Stands for a model of constant Q-values that decides as it is told; forced from `limit` questions on."""

    def __init__(self, q_values, action, limit=5, deferred=0):
        self._q_values, self._action, self._limit, self._deferred = q_values, action, limit, deferred

    def run(self, states, questions_asked):
        rows = len(states)
        best = int(np.argmax(self._q_values[:4]))
        return {
            "q_values": np.tile(self._q_values, [rows, 1]),
            "action": np.full(rows, self._action),
            "best_triage": np.full(rows, best),
            "forced": questions_asked >= self._limit,
            "deferred": np.full(rows, self._deferred),
        }


@pytest.fixture(scope="module")
def constant(version, without_litert, made_once):
    """A version with these Q-values whatever the state, hence Yellow; the vocabulary and limit of `version`."""
    network = network_of((np.zeros([12, 5]), np.log(Q_VALUES / (1 - Q_VALUES))))
    trained = trained_agent(network, version.vocabulary, 5)
    with without_litert():
        return load_version(made_once("constant", lambda folder: write_version(folder, trained)) / "1")


def changed(**values):
    q_values = Q_VALUES.copy()
    for label, value in values.items():
        q_values[Action[label]] = value
    return q_values


def test_a_model_with_the_same_answers_has_full_parity(constant):
    parity = compare(constant, Answers(Q_VALUES, Action.YELLOW), 1e-5, 50, 2)
    assert (parity.states, parity.seed, parity.bound) == (50, 2, 1e-5)
    assert parity.largest_q_difference < 1e-6
    assert (parity.decision_changed, parity.best_triage_changed, parity.best_triage_less_urgent) == (0, 0, 0)
    assert parity.deferred_changed == 0
    assert statement(parity).startswith("In none of 50 ")
    parity = compare(constant, Answers(Q_VALUES, Action.YELLOW, deferred=3), 1e-5, 50, 2)
    assert (parity.decision_changed, parity.deferred_changed) == (0, 1)
    assert statement(parity).startswith("WARNING: 0 of 50 ")


@pytest.mark.parametrize(
    ("q_values", "action", "shares"),
    [
        (changed(GREEN=0.95), Action.GREEN, (1, 1, 1)),
        (changed(RED=0.95), Action.RED, (1, 1, 0)),
        (changed(ASK=0.95), Action.ASK, (1, 0, 0)),
    ],
)
def test_changed_decisions_are_counted_by_kind(constant, q_values, action, shares):
    parity = compare(constant, Answers(q_values, action), 0.8, 50, 0)
    assert (parity.decision_changed, parity.best_triage_changed, parity.best_triage_less_urgent) == shares
    difference = np.abs(q_values - Q_VALUES)
    assert parity.largest_q_difference == pytest.approx(difference.max(), abs=1e-6)
    assert parity.mean_q_difference == pytest.approx(difference.max() / 5, abs=1e-6)  # one of five differs
    counts = [str(round(50 * share)) for share in shares]
    assert re.findall(r"\d+", statement(parity)) == [counts[0], "50", *counts[1:], "0"]


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (Answers(changed(RED=np.nan), Action.YELLOW), "not finite"),
        (Answers(changed(RED=0.35), Action.YELLOW), "0.15 .*bound of 0.1"),
        (Answers(Q_VALUES, Action.YELLOW, limit=4), "max_questions"),
    ],
)
def test_a_broken_file_is_distinguished_from_an_inexact_one(constant, model, complaint):
    with pytest.raises(InputError, match=complaint):
        compare(constant, model, 0.1, 200, 0)


@pytest.fixture(scope="module")
def novel(version, vignettes_of, without_litert, made_once):
    """A version that tells novelty, by 200 vignettes of 3 of 12 pieces: 6 are present in them, 6 absent."""
    codes = [np.random.default_rng(row).permutation(12)[:3] + 1 for row in range(200)]
    vignettes = vignettes_of([(np.where(row > 6, -row, row), [1, 0, 0, 0]) for row in codes])
    network = build_network(12, NetworkConfig(hidden_sizes=(4,)), seed=0)
    statistics = novelty.fit(vignettes, version.vocabulary, seed=0)
    trained = trained_agent(network, version.vocabulary, 5, novelty=statistics)
    with without_litert():
        return load_version(made_once("novel", lambda folder: write_version(folder, trained)) / "1")


@pytest.mark.parametrize(
    "quantization",
    [pytest.param(each, marks=[pytest.mark.slow] * (each in ("float16", "dynamic"))) for each in QUANTIZATIONS],
)
def test_no_quantisation_rounds_the_operations_of_novelty(novel, quantization):
    model = LiteRtModel(convert(novel, quantization, random_states(12, 5, 100, 1)[0]))
    parity = compare(novel, model, BOUNDS[quantization], 500, 0)
    assert parity.largest_novelty_difference < 0.011  # a state may pass one of 200 percentiles, or two
    assert parity.is_novel_changed < 0.01
    outputs = novel.signature(
        **dict(zip(("states", "questions_asked"), map(tf.constant, random_states(12, 5, 500, 0)), strict=True))
    )
    assert 0.1 < outputs["is_novel"].numpy().mean() < 0.9  # so that there is something to change


def test_a_file_with_another_novelty_is_refused(novel):
    class Usual(LiteRtModel):
        def run(self, states, questions_asked):
            return super().run(states, questions_asked) | {"novelty": np.zeros(len(states), np.float32)}

    with pytest.raises(InputError, match=f"novelty .*1 .*bound of {NOVELTY_BOUND:g}"):
        compare(novel, Usual(convert(novel, "none")), BOUNDS["none"], 200, 0)

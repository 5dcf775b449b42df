"""The states that engines are compared on, and which differences count."""

import re

import numpy as np
import pytest
import tensorflow as tf

from schemas import safety_rules
from schemas.answer import ANSWER, Q_BOUND, Kind
from schemas.model_directory import ModelInfo
from schemas.parity import decided_clearly, difference, probes, random_states
from trainer.graph.rules import RuleGraph
from trainer.simulation.knowledge_base import KnowledgeBase


def model(**entries):
    return ModelInfo("1", "sha256:0", "sha256:1", 3, 23, "{}", **entries)


EXPECTED = {
    "q_values": np.array([[0.9, 0.5, 0.4, 0.3, 0.2], [0.5, 0.50001, 0.4, 0.3, 0.2]], np.float32),
    "action": np.array([0, 1]),
    "best_triage": np.array([0, 1]),
    "forced": np.array([False, False]),
    "rules_fired": np.array([[True, False], [False, False]]),
    "novelty": np.array([0.5, 0.995], np.float32),
    "is_novel": np.array([False, True]),
    "action_label": np.array([b"Red", b"Yellow"]),
}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, None),
        ({"q_values": EXPECTED["q_values"] + 0.9e-4}, None),
        ({"q_values": EXPECTED["q_values"] + 1.5e-3}, "q_values .*0.0015, .*0.001"),
        ({"q_values": EXPECTED["q_values"] * np.nan}, "q_values .*nan, .*0.001"),
        ({"action": np.array([0, 0]), "best_triage": np.array([0, 0])}, None),  # a tie but for rounding
        ({"action": np.array([1, 1])}, "action"),
        ({"best_triage": np.array([2, 1])}, "best_triage"),
        ({"novelty": np.array([0.5, 0.985], np.float32), "is_novel": np.array([False, False])}, None),
        ({"novelty": np.array([0.5, 0.9], np.float32)}, "novelty .*0.095, .*0.05"),
        ({"is_novel": np.array([True, True])}, "is_novel"),
    ],
)
def test_only_what_rounding_explains_is_no_difference(changed, expected):
    actual = {name: value for name, value in EXPECTED.items() if name != "action_label"} | changed
    found = difference(actual, EXPECTED, model())
    assert found is None if expected is None else re.fullmatch(expected, found)


def test_an_output_that_is_missing_is_a_difference():
    actual = {name: EXPECTED[name] for name in ("q_values", "action", "best_triage", "forced")}
    assert difference(actual, EXPECTED, model()).endswith(" is_novel, novelty, rules_fired")


IN_STATES = [tensor for tensor in ANSWER if tensor.kind not in (Kind.CODES, Kind.LABEL)]
OTHER = {
    Kind.ACTION: (np.array([0, 0]), np.array([1, 1])),
    Kind.FLAG: (np.array([False, False]), np.array([False, True])),
    Kind.NUMBER: (np.array([0.5, 0.5]), np.array([0.5, 0.7])),
    Kind.VALUES: (np.array([[0.9, 0.1, 0, 0, 0]] * 2), np.array([[0.9, 0.1, 0, 0, 0], [0.9, 0.11, 0, 0, 0]])),
    Kind.RULES: (np.array([[False], [False]]), np.array([[False], [True]])),
    Kind.REASON: (np.array([0, 3]), np.array([0, 0])),
}
"""A tensor of each kind, and another one."""


@pytest.mark.parametrize("tensor", IN_STATES, ids=lambda tensor: tensor.name)
def test_no_field_of_an_answer_may_differ(tensor):
    expected = {each.name: OTHER[each.kind][0] for each in IN_STATES}
    assert difference(expected, expected, model()) is None
    changed = expected | {tensor.name: OTHER[tensor.kind][1]}
    assert difference(changed, expected, model()).split(" ")[0] == tensor.name


def test_rows_are_decided_clearly_where_the_best_stands_out_by_twice_the_bound():
    apart, close = 0.5 - 2.2 * Q_BOUND, 0.5 - 1.8 * Q_BOUND
    rows = [
        [0.5, apart, 0, 0, 0],
        [0.5, close, 0, 0, 0],
        [0.5, 0, 0, 0, close],
        [0.5, 0, 0, 0, 0.9],
        [0.5, 0.5, 0, 0, 0.9],
    ]
    assert decided_clearly({"q_values": np.array(rows)}).tolist() == [True, False, False, True, False]


def test_handing_over_may_differ_where_rounding_turns_what_it_depends_on():
    # P(Red) of the second row, .20005, is half the bound of .0001 below the limit; that of the first is far from it.
    expected = EXPECTED | {
        "p_appropriate": np.array([[0.1, 0.5, 0.4, 0.3], [0.20005, 0.7, 0.4, 0.3]], np.float32),
        "p_safe": np.ones((2, 4), np.float32),
        "q_values": np.array([[0.9, 0.5, 0.4, 0.3, 0.2]] * 2, np.float32),
        "deferred": np.array([0, 0]),
    }
    info = model(probabilities=True, hand_over_from=0.2001)
    second = expected | {"deferred": np.array([0, 3])}
    assert difference(second, expected, info) is None
    assert difference(second, expected, model(probabilities=True)) == "deferred"
    assert difference(expected | {"deferred": np.array([3, 0])}, expected, info) == "deferred"
    # Another novelty may mean that the case is another one: .99 is the threshold.
    novel = expected | {"novelty": np.array([0.5, 0.985], np.float32), "is_novel": np.array([False, False])}
    assert difference(novel | {"deferred": np.array([0, 2])}, expected, model(probabilities=True)) is None


def test_random_states_are_moments_of_interviews():
    states, questions_asked = random_states(30, 23, 4000, seed=1)
    assert states.shape == (4000, 30)
    assert set(np.unique(states)) == {-1, 0, 1}
    assert set(questions_asked) == set(range(24))
    known = np.abs(states).sum(axis=1)
    assert known.min() == 1
    assert (known <= questions_asked + 1).all()
    # q uniform on 0..23 and 1 to q + 1 pieces: (11.5 + 2) / 2 = 6.75 on average; SD 5.7, so that 0.5 is 5 errors.
    assert known.mean() == pytest.approx(6.75, abs=0.5)
    few = random_states(3, 23, 200, seed=1)[0]
    assert np.abs(few).sum(axis=1).max() == 3  # no more than there are


def test_probes_make_nearly_every_rule_fire():
    vocabulary = KnowledgeBase.load().catalogue.vocabulary
    rules, _ = safety_rules.choose("default", vocabulary)
    states, asked = probes(len(vocabulary), 23, 96)
    fired = RuleGraph(rules.rules, vocabulary).fired(tf.constant(states)).numpy()
    assert fired.any(axis=0).mean() >= 0.95
    assert not states[0].any()
    assert {0, 23} <= set(asked.tolist())

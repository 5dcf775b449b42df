"""What follows from a state is known to whatever judges it."""

import itertools

import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from schemas.evidence import Evidence, Vocabulary
from schemas.safety_rules import SafetyRule
from schemas.triage import Action
from tests.builders import symptoms
from trainer.graph.closure import Closure
from trainer.graph.rules import OpenRedFlags, RuleGraph

RELATED = {"chest": ("pain", ""), "crushing": ("chest", ""), "woman": ("", "sex"), "man": ("", "sex"),
           "pregnant": ("woman", ""), "mild": ("pain", "severity"), "severe": ("pain", "severity")}  # fmt: skip
CODES = ("pain", "fever", *RELATED)
VOCABULARY = Vocabulary(Evidence(code, "symptom", code, f"{code}?", (), *RELATED.get(code, ())) for code in CODES)
states = st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=9, max_size=9)


def state_of(*codes):
    """A state of codes, those after a minus are absent."""
    state = np.zeros([1, len(CODES)], np.float32)
    for code in codes:
        state[0, CODES.index(code.removeprefix("-"))] = -1 if code.startswith("-") else 1
    return tf.constant(state)


def codes_in(states):
    return {("-" if value < 0 else "") + code for code, value in zip(CODES, states[0].numpy(), strict=True) if value}


@pytest.fixture(scope="module")
def closure():
    return Closure(VOCABULARY)


@pytest.mark.parametrize(
    ("said", "follows"),
    [
        (("crushing",), {"crushing", "chest", "pain"}),
        (("-pain",), {"-pain", "-chest", "-crushing", "-mild", "-severe"}),
        (("severe",), {"severe", "pain", "-mild"}),
        (("pregnant",), {"pregnant", "woman", "-man"}),
        (("-woman",), {"-woman", "man", "-pregnant"}),  # of two sexes the other one
        (("-mild",), {"-mild"}),  # it may be neither
        # What is said stays, and what follows both ways is not known: chest pain, and a woman.
        (("crushing", "-pain"), {"crushing", "-pain", "-mild", "-severe"}),
        (("pregnant", "man"), {"pregnant", "man"}),
    ],
)
def test_what_follows_from_a_code_is_known_with_it(closure, said, follows):
    assert codes_in(closure(state_of(*said))) == follows


def test_of_three_ages_none_follows_from_the_denial_of_another():
    codes = ("child", "adult", "old")
    ages = symptoms(*codes, exclusive=dict.fromkeys(codes, "age"))
    closed = Closure(ages)(tf.constant([[-1.0, 0, 0], [1, 0, 0]]))
    np.testing.assert_array_equal(closed, [[-1, 0, 0], [1, -1, -1]])


def test_exactly_what_all_possible_patients_share_follows():
    """Of all patients there can be, those are left who have what is known."""
    codes = ("pain", "mild", "severe", "woman", "man", "pregnant")
    vocabulary = Vocabulary(Evidence(code, "symptom", code, f"{code}?", (), *RELATED.get(code, ())) for code in codes)
    patients = np.array(
        [
            (pain, mild, severe, woman, man, pregnant)
            for pain, mild, severe, woman, man, pregnant in itertools.product([-1, 1], repeat=6)
            if pain >= max(mild, severe) and mild + severe < 2 and woman != man and woman >= pregnant
        ]
    )
    known = np.array(list(itertools.product([-1, 0, 1], repeat=6)))
    expected, possible = [], []
    for state in known:
        left = patients[((state == 0) | (patients == state)).all(axis=1)]
        possible.append(len(left) > 0)
        shared = np.abs(left.sum(axis=0)) == len(left)
        expected.append(np.where(shared, np.sign(left.sum(axis=0)), 0))
    closed = Closure(vocabulary)(tf.constant(known, tf.float32)).numpy()
    assert sum(possible) > 100
    np.testing.assert_array_equal(closed[possible], np.array(expected)[possible])


@given(states)
def test_a_closed_state_and_the_shortest_one_of_the_same_meaning_stay(closure, state):
    closed = closure(tf.constant([state]))
    np.testing.assert_array_equal(closure(closed), closed)
    shortest = closure.reduced(tf.constant([state]))
    np.testing.assert_array_equal(closure.reduced(closed), shortest)
    np.testing.assert_array_equal(closure.reduced(shortest), shortest)


@given(states)
def test_a_state_contradicts_itself_where_its_codes_do(closure, state):
    """By `schemas.relations`, as requests are refused."""
    present, absent = ([code for code, cell in zip(CODES, state, strict=True) if cell == sign] for sign in (1, -1))
    contradicts = any(VOCABULARY.relations.contradictions(present, frozenset(absent)))
    assert closure.contradicts(tf.constant([state])).numpy().tolist() == [contradicts]


def test_the_shortest_state_lacks_what_follows_from_the_rest(closure):
    assert codes_in(closure.reduced(state_of("fever", "crushing", "pain", "-man"))) == {"fever", "crushing", "woman"}
    assert codes_in(closure.reduced(state_of("pregnant", "woman", "-man", "-pain", "-mild"))) == {"pregnant", "-pain"}


def test_many_rows_are_closed_as_one_is(closure):
    rows = np.concatenate([state_of("crushing"), state_of("-woman"), state_of("fever")])
    many = scipy.sparse.csr_matrix(np.tile(rows, [1_500, 1]))
    np.testing.assert_array_equal(closure.rows(many).toarray(), np.tile(closure(tf.constant(rows)), [1_500, 1]))


def test_without_relations_nothing_is_computed():
    closure = Closure(symptoms("alone", "apart"))
    states = tf.constant([[1.0, -1.0]])
    assert closure(states) is states
    assert closure.reduced(states) is states


@pytest.mark.parametrize(
    ("known", "fires"),
    [(("pain",), True), (("crushing",), True), (("crushing", "pregnant"), False), (("crushing", "-man"), False)],
)
def test_a_rule_about_a_parent_is_about_its_children(known, fires):
    rule = SafetyRule("r", "x", Action.RED, True, all_of=(("pain", True),), none_of=(("woman", True),))
    assert RuleGraph([rule], VOCABULARY).fired(state_of(*known)).numpy().tolist() == [[fires]]


def test_a_red_flag_is_open_where_a_child_says_the_rest_of_its_rule():
    rule = SafetyRule("r", "x", Action.RED, True, all_of=(("pain", True), ("fever", True)))
    state = state_of("crushing")
    [opened] = OpenRedFlags([rule], VOCABULARY).open(state, state == 0).numpy()
    assert opened[CODES.index("fever")]

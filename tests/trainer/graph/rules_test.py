"""Rules of a model, in the graph, decide as rules of a server do, in plain Python."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.safety_rules import SafetyRule, steps
from schemas.triage import TRIAGE_DECISIONS, Action
from tests.builders import symptoms
from trainer.graph.rules import RuleGraph

CODES = ("a", "b", "c", "d")
VOCABULARY = symptoms(*CODES)

conditions = st.lists(st.tuples(st.sampled_from(CODES), st.booleans()), max_size=3).map(tuple)
rules = st.lists(
    st.builds(
        SafetyRule, st.just("r"), st.just("x"), st.sampled_from(TRIAGE_DECISIONS), st.booleans(),
        conditions, conditions, conditions,
    ).filter(lambda rule: rule.all_of or rule.any_of),
    min_size=1,
    max_size=5,
)  # fmt: skip
states = st.lists(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=4, max_size=4), min_size=1, max_size=4)
decisions = st.tuples(st.sampled_from(TRIAGE_DECISIONS), st.booleans())


@settings(max_examples=60)
@given(rules, states, decisions)
def test_the_graph_does_what_plain_python_does(rules, states, before):
    graph, (best, asking) = RuleGraph(rules, VOCABULARY), before
    start = Action.ASK if asking else best
    fired = graph.fired(tf.constant(states)).numpy()
    action, triage = tf.fill([len(states)], int(start)), tf.fill([len(states)], int(best))
    raised = graph.apply(tf.constant(fired), action, triage)
    sources, targets = graph.steps(tf.constant(fired), action, triage)
    for row, state in enumerate(states):
        present, absent = ([code for code, cell in zip(CODES, state, strict=True) if cell == sign] for sign in (1, -1))
        assert fired[row].tolist() == [rule.fires(present, absent) for rule in rules]
        places = np.flatnonzero(fired[row])
        expected = steps([rules[place] for place in places], start, best)
        for place, step in zip(places, expected, strict=True):
            assert (sources[row, place], targets[row, place]) == (step.before, step.after)
        after = (expected[-1].after, expected[-1].best_triage) if expected else (start, best)
        assert (raised.action[row], raised.best_triage[row]) == after


def test_no_rule_fires_where_nothing_is_known():
    given = [SafetyRule("r", "x", Action.RED, True, any_of=(("a", False),), none_of=(("b", True),))]
    assert RuleGraph(given, VOCABULARY).fired(tf.zeros([2, 4])).numpy().tolist() == [[False], [False]]


def test_a_graph_of_no_rules_is_refused():
    with pytest.raises(ValueError, match="at least one rule"):
        RuleGraph([], VOCABULARY)

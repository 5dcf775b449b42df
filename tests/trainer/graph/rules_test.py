"""Safety rules: which of them fire, and what they make of a decision."""

import pytest
import tensorflow as tf

from schemas.safety_rules import SafetyRule, steps
from schemas.triage import Action
from tests.builders import fired_in, symptoms
from trainer.graph.rules import RuleGraph

VOCABULARY = symptoms("chest_pain", "sweating", "fever", "injury")
HEART = SafetyRule(
    "heart", "Can be a heart attack.", Action.RED, True,
    (("chest_pain", True),), (("sweating", True), ("fever", False)), (("injury", True),),
)  # fmt: skip
COOL = SafetyRule("cool", "No fever.", Action.YELLOW, False, any_of=(("fever", False),), none_of=(("injury", False),))


@pytest.mark.parametrize(
    ("present", "absent", "fired"),
    [
        ("chest_pain sweating", "", {"heart"}),
        ("chest_pain", "fever", {"heart", "cool"}),  # one of any is enough
        ("chest_pain", "", set()),  # none of any is known
        ("sweating", "fever", {"cool"}),  # not all of heart
        ("chest_pain sweating injury", "", set()),  # one of none
        ("chest_pain sweating", "injury", {"heart"}),
        ("", "chest_pain sweating fever injury", set()),  # a denial of none
        ("", "", set()),  # a rule needs something known
    ],
)
def test_a_rule_fires_when_all_any_and_none_hold(present, absent, fired):
    assert fired_in([HEART, COOL], VOCABULARY, [present.split(), absent.split()]) == [fired]


ASK, RED, YELLOW, GREEN = Action.ASK, Action.RED, Action.YELLOW, Action.GREEN


@pytest.mark.parametrize(
    ("action", "best", "fired", "taken", "best_after"),
    [
        (GREEN, GREEN, [(YELLOW, False)], [(GREEN, YELLOW)], YELLOW),
        (RED, RED, [(YELLOW, False)], [(RED, RED)], RED),  # never less urgent
        (ASK, GREEN, [(YELLOW, False)], [(ASK, ASK)], YELLOW),  # asks on, best triage raised
        (ASK, GREEN, [(RED, True)], [(ASK, RED)], RED),
        (ASK, RED, [(YELLOW, True)], [(ASK, RED)], RED),  # ends the questions at the model's own
        (ASK, GREEN, [(YELLOW, False), (RED, True), (YELLOW, False)], [(ASK, ASK), (ASK, RED), (RED, RED)], RED),
        (ASK, GREEN, [(RED, False), (YELLOW, True)], [(ASK, ASK), (ASK, RED)], RED),
        (GREEN, GREEN, [], [], GREEN),
    ],
)  # each rule begins where the one before it ended
def test_the_graph_and_the_messages_of_an_engine_apply_rules_one_after_the_other(
    action, best, fired, taken, best_after
):
    rules = [SafetyRule("r", "x", *each, all_of=(("fever", True),)) for each in fired]
    messages = steps(rules, action, best)
    assert [(step.before, step.after) for step in messages] == taken
    others = SafetyRule("r", "does not fire", RED, True, all_of=(("fever", True),))
    graph = RuleGraph([others, *rules, others], VOCABULARY)  # in whose place nothing may change
    flags = tf.constant([[False, *[True] * len(rules), False]])
    raised = graph.apply(flags, tf.constant([int(action)]), tf.constant([int(best)]))
    before, after = graph.steps(flags, tf.constant([int(action)]), tf.constant([int(best)]))
    assert list(zip(before[0, 1:-1].numpy(), after[0, 1:-1].numpy(), strict=True)) == taken
    assert (raised.action[0], raised.best_triage[0]) == (taken[-1][1] if taken else action, best_after)


def test_a_graph_of_no_rules_is_refused():
    with pytest.raises(ValueError, match="one rule"):
        RuleGraph([], VOCABULARY)

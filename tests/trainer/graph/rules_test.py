"""Safety rules: which of them fire, what they make of a decision, and which red flags they leave open."""

import pytest
import tensorflow as tf

from schemas.safety_rules import SafetyRule, steps
from schemas.triage import Action
from tests.builders import fired_in, symptoms
from trainer.graph.rules import OpenRedFlags, RuleGraph

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
        (ASK, GREEN, [(YELLOW, False)], [(ASK, ASK)], YELLOW),  # keeps asking, best triage raised
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


CODES = ("pain", "sweating", "fainting", "reflux", "fever")


@pytest.fixture(scope="module")
def vocabulary():
    return symptoms(*CODES)


@pytest.fixture(scope="module")
def flags(vocabulary):
    heart = SafetyRule(
        "heart", "r", Action.RED, True,
        all_of=(("pain", True),), any_of=(("sweating", True), ("fainting", True)), none_of=(("reflux", True),),
    )  # fmt: skip
    mild = SafetyRule("mild", "r", Action.YELLOW, False, any_of=(("fever", True),))
    return OpenRedFlags((heart, mild), vocabulary)


def _opened(flags, known, never=()):
    """The open red flags that are not known, where nobody can have what is in `never`."""
    states = tf.constant([known], tf.float32)
    may_be = (states == 0) & tf.constant([code not in never for code in CODES])
    [opened] = flags.open(states, may_be).numpy()
    return {code for code, flag, state in zip(CODES, opened, known, strict=True) if flag and not state}


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([0, 0, 0, 0, 0], set()),  # no single answer fires the rule
        ([1, 0, 0, 0, 0], {"sweating", "fainting"}),
        ([0, 1, 0, 0, 0], set()),  # who sweats is not asked what else every rule with sweating requires
        ([1, 0, 0, 1, 0], set()),  # the rule is excluded
        ([1, 0, 0, -1, -1], {"sweating", "fainting"}),
        ([1, 1, 0, -1, 0], set()),  # it fires, to which fainting would add nothing
    ],
)
def test_a_red_flag_is_open_where_a_yes_would_fire_a_rule_for_red(flags, known, expected):
    assert _opened(flags, known) == expected


@pytest.mark.parametrize(
    ("known", "never", "expected"),
    [
        ([0, 0, 0, 0, 0], (), set()),  # nothing of the rule holds yet
        ([0, 0, 1, 0, 0], (), set()),  # one of `any` holds, which alone begins no rule
        ([1, 0, 1, 0, 0], (), {"sweating"}),  # a fever would not bring the rule nearer
        ([-1, 0, 1, 0, 0], (), set()),  # the rule cannot fire any more
        ([1, 0, 0, 0, 0], (), {"fainting", "fever"}),  # one of `all` holds, one is open
        ([1, 0, 0, 0, 0], ("sweating",), set()),  # which the patient cannot have
    ],
)
def test_a_red_flag_two_answers_away_is_open_where_its_rule_has_begun_and_can_fire(vocabulary, known, never, expected):
    rule = SafetyRule(
        "both", "r", Action.RED, True,
        all_of=(("pain", True), ("sweating", True)), any_of=(("fainting", True), ("fever", True)),
    )  # fmt: skip
    assert _opened(OpenRedFlags((rule,), vocabulary), known, never) == expected


def test_a_rule_has_begun_where_something_that_it_requires_holds(vocabulary, flags):
    alone = SafetyRule("alone", "r", Action.RED, True, any_of=(("fever", True), ("reflux", True)))
    both = SafetyRule("both", "r", Action.RED, True, all_of=(("pain", True), ("fever", True)))
    three = SafetyRule("three", "r", Action.RED, True, all_of=(("pain", True), ("fever", True), ("reflux", True)))
    begun = {
        "a code is enough by itself": (alone, [1, 1, 1, 0, 0], set()),
        "one of two is known": (both, [1, 0, 0, 0, 0], {"fever"}),
        "none of two is known": (both, [0, 1, 0, 0, 0], set()),
        "one of three is known": (three, [1, 0, 0, 0, 0], {"fever", "reflux"}),
    }
    for case, (rule, known, expected) in begun.items():
        assert _opened(OpenRedFlags((rule,), vocabulary), known) == expected, case

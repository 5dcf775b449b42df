import pytest
import tensorflow as tf

from schemas.safety_rules import SafetyRule
from schemas.triage import Action
from tests.builders import symptoms
from trainer.graph.rules import OpenRedFlags

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

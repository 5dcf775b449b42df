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


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([0, 0, 0, 0, 0], set()),  # no single answer fires the rule
        ([1, 0, 0, 0, 0], {"sweating", "fainting"}),
        ([0, 1, 0, 0, 0], set()),  # who sweats is not asked what else every rule with sweating requires
        ([1, 0, 0, 1, 0], set()),  # the rule is excluded
        ([1, 0, -1, -1, 0], {"sweating", "fainting"}),
        ([1, 1, 0, -1, 0], {"sweating"}),  # itself known; one of `any` is enough, so fainting would add nothing
    ],
)
def test_a_red_flag_is_open_where_a_yes_would_fire_a_rule_for_red(flags, known, expected):
    [opened] = flags.open(tf.constant([known], tf.float32)).numpy()
    assert {code for code, flag in zip(CODES, opened, strict=True) if flag} == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([0, 0, 0, 0, 0], set()),  # nothing of the rule holds yet
        ([0, 0, 1, 0, 0], set()),  # one of `any` holds, which alone begins no rule
        ([1, 0, 1, 0, 0], {"sweating"}),
        ([-1, 0, 1, 0, 0], set()),  # the rule cannot fire any more
        ([1, 0, 0, 0, 0], {"fainting"}),  # one of `all` holds, one is open
    ],
)
def test_a_red_flag_two_answers_away_is_open_where_its_rule_has_begun(vocabulary, known, expected):
    both = SafetyRule(
        "both", "r", Action.RED, True, all_of=(("pain", True), ("sweating", True)), any_of=(("fainting", True),)
    )
    [opened] = OpenRedFlags((both,), vocabulary).open(tf.constant([known], tf.float32)).numpy()
    flags = {code for code, flag, state in zip(CODES, opened, known, strict=True) if flag and not state}
    assert flags == expected


def test_a_rule_has_begun_where_something_that_it_requires_holds(vocabulary, flags):
    alone = SafetyRule("alone", "r", Action.RED, True, any_of=(("fever", True), ("reflux", True)))
    both = SafetyRule("both", "r", Action.RED, True, all_of=(("pain", True), ("fever", True)))
    begun = {
        "pain is known": (flags, [1, 0, 0, 0, 0], {"sweating", "fainting"}),
        "one of any is known": (flags, [0, 1, 0, 0, 0], set()),
        "a code is enough by itself": (OpenRedFlags((alone,), vocabulary), [1, 1, 1, 0, 0], set()),
        "one of two is known": (OpenRedFlags((both,), vocabulary), [1, 0, 0, 0, 0], {"fever"}),
        "none of two is known": (OpenRedFlags((both,), vocabulary), [0, 1, 0, 0, 0], set()),
    }
    for case, (red_flags, known, expected) in begun.items():
        [opened] = red_flags.open(tf.constant([known], tf.float32)).numpy()
        found = {code for code, flag, state in zip(CODES, opened, known, strict=True) if flag and not state}
        assert found == expected, case


def test_of_codes_of_which_one_is_enough_no_other_is_asked_about(vocabulary):
    """After pain and fainting the rule lacks sweating alone: a fever would not bring it nearer."""
    rule = SafetyRule(
        "one", "r", Action.RED, True,
        all_of=(("pain", True), ("sweating", True)), any_of=(("fainting", True), ("fever", True)),
    )  # fmt: skip
    [opened] = OpenRedFlags((rule,), vocabulary).open(tf.constant([[1, 0, 1, 0, 0]], tf.float32)).numpy()
    assert opened[CODES.index("sweating")]
    assert not opened[CODES.index("fever")]

import numpy as np
import pytest
import tensorflow as tf

from schemas.evidence import Evidence, Vocabulary
from schemas.safety_rules import RuleSet, SafetyRule
from schemas.triage import NUM_ACTIONS, Action
from tests.builders import arrays_of, outcomes_of
from trainer.evaluation.walk import GreedyAgent, Walk, effects, error_report, walk, worst_cases, worst_errors
from trainer.graph.decide import OperatingPoint

VOCABULARY = Vocabulary(
    [
        Evidence("fever", "symptom", "Fever", "Do you have a fever?"),
        Evidence("cough", "symptom", "Cough", "Do you cough?"),
        Evidence("smoker", "risk_factor", "Smoker", "Do you smoke?"),
    ]
)
ASKS, GREEN, RED = [0.1, 0.2, 0.4, 0.1, 0.9], [0.1, 0.2, 0.8, 0.1, 0.5], [0.7, 0.2, 0.1, 0.1, 0.5]


def _walk(q_values, max_questions=23):
    steps = walk([1, -2, 3][: len(q_values)], np.array(q_values), max_questions)
    return steps.questions, steps.decided_after, steps.decision


@pytest.mark.parametrize(
    ("q_values", "limit", "expected"),
    [
        ([GREEN, RED, RED], 23, (0, 1, Action.GREEN)),
        ([ASKS, ASKS, RED], 23, (2, 3, Action.RED)),
        # Nothing is left after three pieces: it asks in vain up to the limit, and then takes its best triage decision.
        ([ASKS, ASKS, ASKS], 23, (23, 3, Action.GREEN)),
        # One question is allowed: with two pieces known the decision is forced.
        ([ASKS, ASKS, RED], 1, (1, 2, Action.GREEN)),
        ([ASKS, RED, RED], 1, (1, 2, Action.RED)),
        # Triage comes before asking where they are equal.
        ([[0.5, 0.1, 0.1, 0.1, 0.5], ASKS, ASKS], 23, (0, 1, Action.RED)),
    ],
)
def test_a_walk_ends_at_the_first_decision_or_the_limit(q_values, limit, expected):
    assert _walk(q_values, limit) == expected


UNSURE, SURE = [0.5, 0.6, 0.3, 0.1, 0.55], [0.5, 0.9, 0.3, 0.1, 0.55]


@pytest.mark.parametrize(
    ("sure_enough", "expected", "asking"),
    [
        (None, (0, 1, Action.YELLOW), 0.55),
        (0.5, (0, 1, Action.YELLOW), 0.55),  # Q(ask) is more anyway
        (0.8, (1, 2, Action.YELLOW), 0.8),  # .6 is below it, .9 is not
    ],
)
def test_an_agent_asks_on_below_the_floor_under_asking(sure_enough, expected, asking):
    steps = walk([1, -2], np.array([UNSURE, SURE]), 23, OperatingPoint(sure_enough))
    assert (steps.questions, steps.decided_after, steps.decision) == expected
    np.testing.assert_allclose(steps.values[0], [0.5, 0.6, 0.3, 0.1, asking], atol=1e-6)


def test_worst_cases_are_walked_to_the_least_urgent_decision():
    # Green on the piece fever alone, Red once cough is known to be absent: it errs if fever comes first.
    def network(states):
        known = np.asarray(states)
        return {"q": tf.constant(np.where((known[:, 1] < 0)[:, np.newaxis], RED, GREEN), tf.float32)}

    vignettes = arrays_of([[2, 0, 0, 0], [0, 0, 2, 0]], [(1, -2), (1,)])
    agent = GreedyAgent(network, VOCABULARY, max_questions=23)
    [case] = worst_cases(agent, outcomes_of([[2, 2], [0, 2]]), vignettes, orders=range(8))
    assert (case["vignette_id"], case["decision"], case["pieces"]) == ("v0", "Green", {"known": 1, "all": 2})
    # Without fever nothing is known, and the values are the same.
    assert case["effects"] == [{"evidence": "Fever", "presence": "present", "effect": 0.0}]
    assert (
        worst_cases(agent, outcomes_of([[2, 2]]), arrays_of([[2, 0, 0, 0], [1, 0, 0, 0]], [(-2,), (-2, 3)]), [0]) == []
    )


def test_worst_errors_are_those_that_fall_most_urgency_steps_short():
    counts = [[2, 0, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [3, 0, 0, 0]]
    decisions = [[2, 3, 2, 3], [0, 3, 2, 3]]
    # Steps less urgent than the least urgent clinician, mean of two orders: v0 (2 + 0) / 2 = 1, v1 (1 + 1) / 2 = 1,
    # v2 (1 + 1) / 2 = 1, v3 (3 + 3) / 2 = 3.
    assert worst_errors(outcomes_of(decisions), np.array(counts)) == [3, 0, 2, 1]  # v2 is Yellow, v1 Green at least


def test_an_error_report_has_the_vignette_and_each_step():
    episode = Walk([-2, 3], np.array([ASKS, ASKS]), decided_after=2, questions=3, decision=Action.GREEN)
    report = error_report(0, episode, [0.125, 0.25], arrays_of([[2, 1, 0, 0]], [(3, -2)]), VOCABULARY)
    assert report["text"] == "Patient: Smoker\nAbsent: Cough"
    assert (report["pieces"], report["rules"]) == ({"known": 2, "all": 2}, [])
    assert (report["vignette_id"], report["decisions"], report["decision"]) == ("v0", ["Red", "Red", "Yellow"], "Green")
    steps = [(step["evidence"], step["presence"], step["action"]) for step in report["steps"]]
    assert steps == [
        ("Cough", "absent", "ask"), ("Smoker", "present", "ask"), ("nothing new", None, "ask"),
        ("nothing new", None, "Green"),
    ]  # fmt: skip
    assert report["effects"] == [
        {"evidence": "Smoker", "presence": "present", "effect": 0.25},
        {"evidence": "Cough", "presence": "absent", "effect": 0.125},
    ]
    assert report["steps"][0]["values"] == {"Red": 0.1, "Yellow": 0.2, "Green": 0.4, "Blue": 0.1, "ask": 0.9}


def test_an_error_report_names_the_rules_that_would_have_caught_it():
    smoker, cough = ("smoker", True), ("cough", False)
    rules = RuleSet(
        tuple(
            SafetyRule(name, "why", urgency, stop_asking=True, all_of=conditions)
            for name, urgency, conditions in (
                ("known", Action.YELLOW, (cough,)),
                ("not_known_yet", Action.RED, (smoker,)),
                ("no_more_urgent", Action.GREEN, (cough,)),
            )
        )
    )
    # The agent decides on the first of the two pieces.
    episode = Walk([-2, 3], np.array([GREEN, GREEN]), decided_after=1, questions=0, decision=Action.GREEN)
    report = error_report(0, episode, [0.5], arrays_of([[1, 0, 0, 0]], [(3, -2)]), VOCABULARY, rules)
    assert report["pieces"] == {"known": 1, "all": 2}
    assert report["rules"] == [{"rule_id": "known", "reason": "why", "urgency": "Yellow"}]


def q_values(states):
    """Red: .25 with the first piece present, .75 with the third absent too; the others never change."""
    red = 0.25 * tf.nn.relu(states[:, :1]) + 0.5 * tf.nn.relu(-states[:, 2:3])
    return {"q": tf.concat([red, tf.fill([len(states), NUM_ACTIONS - 1], 0.5)], axis=1)}


def with_probabilities(states):
    """The Q-value of asking depends on the second piece alone, and all eight probabilities on the first."""
    likely = tf.repeat(0.5 + 0.25 * states[:, :1], 4, axis=1)
    return {"q": tf.repeat(states[:, 1:2], NUM_ACTIONS, axis=1), "appropriate": likely, "safe": likely}


def test_without_probabilities_the_effect_is_on_the_values_of_the_four_decisions():
    # One of four values changes: by .25 without the first piece, by .5 without the absence, by nothing without fever.
    assert effects([1, -3, 2], 3, q_values) == pytest.approx([0.25 / 4, 0.5 / 4, 0.0])


def test_with_probabilities_the_effect_is_on_them_and_not_on_asking():
    assert effects([1, 2], 3, with_probabilities) == pytest.approx([0.25, 0.0])
    assert effects(np.array([-1], np.int16), 3, with_probabilities) == pytest.approx([0.25])

import numpy as np
import pytest

from schemas.safety_rules import RuleSet, SafetyRule
from schemas.triage import Action
from tests.builders import arrays_of, outcomes_of
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation.measurement import DEFER_BELOW, agent_figures, hand_over_effects, rule_effect
from trainer.graph.operating_point import HAND_OVER_FROM

RED, GREEN = [3, 0, 0, 0], [0, 0, 3, 0]


def test_an_agent_without_q_values_has_all_figures_but_calibration():
    vignettes = arrays_of([[1, 0, 0, 0], [0, 0, 2, 0]], [(1,), (2, -3)])
    figures = agent_figures(outcomes_of([[0, 2]]), vignettes, seed=0)
    assert figures.calibration is None
    assert figures.agreement["weighted_kappa"].mean == 1.0
    assert figures.agent["appropriateness"].mean == 1.0


RULES = RuleSet((SafetyRule("hot", "Hot.", Action.RED, False, all_of=(("fever", True),)),), "mine.toml")
RULED = np.array([[2, 1, 0, 0], [0, 2, 1, 0]])  # clinicians: Red or Yellow, mostly Red; Yellow or Green


def test_both_sides_and_their_paired_difference_are_reported():
    before = outcomes_of([[2, 2], [1, 2]], [[4, 2], [2, 2]])  # two orders of two vignettes
    after = outcomes_of([[0, 2], [1, 0]], [[0, 2], [2, 0]])
    effect = rule_effect(RULES, before, after, RULED, minimum_decisions=3, seed=0)
    # Before: Green under-triages the first vignette in one order of two. After: Red over-triages the second in one.
    means = {name: (c.without.mean, c.with_rules.mean) for name, c in effect.metrics.items()}
    assert means == {
        "appropriateness": (0.75, 0.75),
        "safety": (0.75, 1.0),
        "over_triage": (0.0, 0.25),
        "under_triage": (0.25, 0.0),
        "questions": (2.5, 1.0),
        "red_sensitivity": (0.0, 0.5),
        "red_specificity": (1.0, 0.5),
    }
    assert effect.metrics["questions"].difference.mean == pytest.approx(-1.5)
    assert effect.metrics["safety"].difference.mean == pytest.approx(0.25)
    assert effect.changed == 0.5


def decided(decisions, safe, red=0.0):
    """One order of vignettes, each with the P(safe) of its own decision, and the P(appropriate) of Red."""
    heads = {head: np.zeros([1, len(decisions), 4], np.float32) for head in ("appropriate", "safe")}
    heads["appropriate"][0, :, 0] = red
    heads["safe"][0, np.arange(len(decisions)), decisions] = safe
    nothing = np.zeros([1, len(decisions)])
    return Outcomes(np.array([decisions]), nothing, nothing, nothing, heads)


def test_what_is_unsafe_and_unsure_is_handed_over_first():
    played = decided([2, 2, 0, 3], [0.55, 0.85, 1.0, 0.97])
    found = hand_over_effects(played, np.array([RED, RED, RED, GREEN]))
    rows = {row.defer_below: row[2:] for row in found if row.hand_over_from is None}
    # Two of three Red ones leave as Green, the Green one as Blue: three of four are under-triaged.
    assert rows[0.0] == (0.0, 0.75, pytest.approx(2 / 3))
    assert rows[0.6] == (0.25, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert rows[0.9] == (0.5, 0.5, 0.0)
    assert list(rows) == list(DEFER_BELOW)


def test_what_a_promise_would_hand_over_is_what_it_decides_below_red_though_red_is_probable():
    played = decided([2, 2, 0, 3], [1.0, 1.0, 1.0, 0.1], red=[0.25, 0.12, 0.5, 0.0])
    found = hand_over_effects(played, np.array([RED, RED, RED, GREEN]))
    rows = {row.hand_over_from: row[2:] for row in found if row.defer_below is None}
    assert rows[0.3] == (0.0, 0.75, pytest.approx(2 / 3))  # the one with .5 is decided Red
    assert rows[0.15] == (0.25, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert rows[0.05] == (0.5, 0.5, 0.0)
    assert sorted(rows) == list(HAND_OVER_FROM)


def test_without_red_patients_or_probabilities_nothing_is_said():
    rows = hand_over_effects(decided([2], [0.2]), np.array([GREEN]))
    assert (0.95, None, 1.0, None, None) in rows
    assert hand_over_effects(decided([2], [0.2])._replace(heads={"q": np.zeros([1, 1, 5])}), np.array([GREEN])) == []

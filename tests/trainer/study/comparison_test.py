import numpy as np
import pytest

from trainer.dyqn.rollout import Outcomes
from trainer.study import comparison

COUNTS = np.array([[2, 0, 1, 0], [0, 1, 1, 0], [0, 0, 3, 0]])


def outcomes(decisions, forced):
    nothing = np.zeros([1, len(decisions)], np.int32)
    return Outcomes(np.array([decisions]), nothing, nothing, np.array([forced]))


def test_an_agent_takes_the_place_of_each_clinician():
    # {Red, Red, Green} and Yellow: right without a Red, too late without Green: 2/3. {Yellow, Green}: too few.
    # {Green, Green, Green} and Green: right. Of the two, the first is forced.
    figures = comparison.agent_figures(outcomes([1, 1, 2], [True, True, False]), COUNTS, seed=0)
    assert figures["appropriateness"].mean == pytest.approx((2 / 3 + 1) / 2)
    assert figures["under_triage"].mean == pytest.approx((1 / 3) / 2)
    assert figures["forced"].mean == 0.5
    # Most others say Red wherever one of the three is left out, and the agent says Yellow.
    assert figures["red_sensitivity"].mean == 0.0


def test_the_clinicians_have_the_same_figures_on_the_same_vignettes():
    ours = comparison.agent_figures(outcomes([1, 1, 2], [False] * 3), COUNTS, seed=0)
    theirs = comparison.clinician_figures(COUNTS, seed=0)
    assert set(ours) - set(theirs) == {"forced"}
    # Red among {Red, Green}: right, twice. Green after {Red, Red}: too late. All three Green ones are right.
    assert theirs["under_triage"].mean == pytest.approx((1 / 3) / 2)
    assert theirs["safety"].vignettes == ours["safety"].vignettes == 2


def test_without_enough_decisions_nobody_has_figures():
    assert comparison.agent_figures(outcomes([1], [False]), COUNTS[1:2], seed=0) is None
    assert comparison.clinician_figures(COUNTS[1:2], seed=0) is None


def test_a_paired_interval_leaves_out_what_makes_a_vignette_hard_for_both():
    hard = np.random.default_rng(0).random(200)
    figures = comparison.paired(hard - 0.1, hard, seed=0)
    assert (figures.mean, figures.low, figures.high) == pytest.approx((-0.1, -0.1, -0.1))


def test_different_vignettes_are_resampled_apart():
    ours, theirs = np.array([0.0, 1.0] * 100), np.array([0.5] * 50)
    found = comparison.unpaired((ours, np.ones(200)), (theirs, np.ones(50)), seed=0)
    # Only ours vary: .5 with a standard error of .5 / sqrt(200) = .035.
    assert found.mean == 0.0
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.035, abs=0.02)
    assert comparison.unpaired((ours, np.zeros(200)), (theirs, np.ones(50)), seed=0) is None


def test_a_ratio_is_of_the_sums():
    # (1 + 1) / (2 + 6), not the mean of 1/2 and 1/6.
    assert comparison.ratio(np.array([1.0, 1.0]), np.array([2.0, 6.0]), seed=0).mean == 0.25
    assert comparison.ratio(np.array([1.0]), np.array([0.0]), seed=0) is None

"""The frontiers of safety weights and of handing over, by outputs made by hand."""

import numpy as np
import pytest

from trainer.dyqn.rollout import Outcomes
from trainer.evaluation.frontier import DEFER_BELOW, Point, frontier, handing_over, play_outputs, rising
from trainer.graph.decide import ASK_POINTS, OperatingPoint
from trainer.graph.operating_point import HAND_OVER_FROM

YELLOW = [0.0] * 5 + [0.2, 0.7, 0.0, 0.0, 1.0, 0.7, 0.0, 0.0]
"""Q-values, P(appropriate), P(safe): the decision is Yellow for weights below 1.67, then Red."""
ASKS, STOPS = [0.9] * len(ASK_POINTS) + [0.0], [0.0] * len(ASK_POINTS) + [0.0]
"""Q(ask), which is compared with a utility of at most .74: (.2 + 2) / 3 of Red with the weight 2."""

RED, GREEN = [3, 0, 0, 0], [0, 0, 3, 0]


@pytest.fixture
def vignettes(vignettes_of):
    return vignettes_of([([1, 2, 3], [3, 0, 0, 0]), ([4], [0, 3, 0, 0])])


@pytest.fixture
def outputs():
    """The first vignette stops at its second piece of evidence; the second goes on asking in vain."""
    rows = [YELLOW + ASKS, YELLOW + STOPS, YELLOW + ASKS, YELLOW + ASKS]
    return np.array([rows], np.float32)


def test_episodes_end_where_the_agent_stops_or_is_forced(vignettes, outputs):
    outcomes = play_outputs(outputs, vignettes, OperatingPoint(0.0), max_questions=5)
    assert outcomes.evidence_seen.tolist() == [[2, 1]]
    assert outcomes.questions.tolist() == [[1, 5]]
    assert outcomes.forced.tolist() == [[False, True]]
    assert outcomes.decisions.tolist() == [[1, 1]]
    assert play_outputs(outputs, vignettes, OperatingPoint(2.0), max_questions=5).decisions.tolist() == [[0, 0]]


def test_a_point_for_each_operating_point_and_the_agents_own_is_marked(vignettes, outputs):
    low, high = frontier(outputs, vignettes, [OperatingPoint(0.0), OperatingPoint(2.0)], 5, chosen=OperatingPoint(2.0))
    # Yellow is under-triage of the vignette that is Red; Red is over-triage of the one that is Yellow.
    assert (low.appropriateness, low.safety, low.over_triage, low.red_sensitivity) == (0.5, 0.5, 0.0, 0.0)
    assert (high.appropriateness, high.safety, high.over_triage, high.red_sensitivity) == (0.5, 1.0, 0.5, 1.0)
    assert (low.chosen, high.chosen) == (False, True)
    assert (low.questions, low.evidence_seen, low.forced) == (3.0, 1.5, 0.5)
    assert low.intervals["safety"] == (0.0, 1.0)  # of two vignettes, one is safe
    assert high.intervals["safety"] == (1.0, 1.0)
    assert low.intervals["red_sensitivity"] == (None, None)  # one vignette is Red


@pytest.mark.parametrize(
    ("found", "own", "kept"),
    [
        ([0.5, 0.7, 0.6, 0.6, 0.8], 2, [0.5, 0.6, 0.6, 0.8]),  # 0.7 at a smaller weight
        ([0.5, 0.7, 0.6, 0.8], 1, [0.5, 0.7, 0.8]),  # 0.6 at a larger one
        ([0.7, 0.5], 0, [0.7]),
        ([None, None], 1, [None, None]),  # there are no Red cases
    ],
)
def test_along_the_frontier_no_larger_weight_finds_fewer_red_cases(found, own, kept):
    points = [
        Point(float(weight), None, 0.01, weight == own, 0.8, 0.9, 0.1, red, 3.0, 4.0, 0.0, {})
        for weight, red in enumerate(found)
    ]
    assert [point.red_sensitivity for point in rising(points)] == kept
    assert points[own] in rising(points)


def decided(decisions, safe, red=0.0):
    """One order of vignettes, each with the P(safe) of its own decision, and the P(appropriate) of Red."""
    outputs = np.zeros([1, len(decisions), 13], np.float32)
    outputs[0, :, 5] = red
    outputs[0, np.arange(len(decisions)), 9 + np.array(decisions)] = safe
    nothing = np.zeros([1, len(decisions)])
    return Outcomes(np.array([decisions]), nothing, nothing, nothing, outputs)


def test_what_is_unsafe_and_unsure_is_handed_over_first():
    played = decided([2, 2, 0, 3], [0.55, 0.85, 1.0, 0.97])
    found = handing_over(played, np.array([RED, RED, RED, GREEN]))
    rows = {row.defer_below: row[2:] for row in found if row.hand_over_from is None}
    # Two of three Red ones leave as Green, the Green one as Blue: three of four are under-triaged.
    assert rows[0.0] == (0.0, 0.75, pytest.approx(2 / 3))
    assert rows[0.6] == (0.25, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert rows[0.9] == (0.5, 0.5, 0.0)
    assert list(rows) == list(DEFER_BELOW)


def test_what_a_promise_would_hand_over_is_what_it_decides_below_red_though_red_is_probable():
    played = decided([2, 2, 0, 3], [1.0, 1.0, 1.0, 0.1], red=[0.25, 0.12, 0.5, 0.0])
    found = handing_over(played, np.array([RED, RED, RED, GREEN]))
    rows = {row.hand_over_from: row[2:] for row in found if row.defer_below is None}
    assert rows[0.3] == (0.0, 0.75, pytest.approx(2 / 3))  # the one with .5 is decided Red
    assert rows[0.15] == (0.25, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert rows[0.05] == (0.5, 0.5, 0.0)
    assert sorted(rows) == list(HAND_OVER_FROM)


def test_without_red_patients_or_probabilities_nothing_is_said():
    rows = handing_over(decided([2], [0.2]), np.array([GREEN]))
    assert (0.95, None, 1.0, None, None) in rows
    assert handing_over(decided([2], [0.2])._replace(outputs=np.zeros([1, 1, 5])), np.array([GREEN])) == []

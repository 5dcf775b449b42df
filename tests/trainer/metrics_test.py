import numpy as np
import pytest

from schemas.triage import Action
from trainer import metrics
from trainer.rollout import Outcomes

# Columns: Red, Yellow, Green, Blue.
COUNTS = np.array([[1, 0, 1, 0], [0, 2, 0, 0], [0, 0, 1, 3]], np.uint8)


def test_urgency_range_of_each_vignette():
    most, least = metrics.urgency_range(COUNTS)
    assert most.tolist() == [Action.RED, Action.YELLOW, Action.GREEN]
    assert least.tolist() == [Action.GREEN, Action.YELLOW, Action.BLUE]


def test_triage_quality_worked_out_by_hand_over_two_evidence_orders():
    decisions = np.array([[Action.YELLOW, Action.RED, Action.BLUE], [Action.BLUE, Action.GREEN, Action.YELLOW]])
    # Vignette 0 {Red, Green}: Yellow is appropriate, Blue under. Vignette 1 {Yellow}: Red over, Green under.
    # Vignette 2 {Green, Blue}: Blue is appropriate, Yellow over.
    quality = metrics.triage_quality(decisions, COUNTS)
    assert quality["appropriateness"].tolist() == [0.5, 0.0, 0.5]
    assert quality["over_triage"].tolist() == [0.0, 0.5, 0.5]
    assert quality["under_triage"].tolist() == [0.5, 0.5, 0.0]
    assert quality["safety"].tolist() == [0.5, 0.5, 1.0]


def test_every_decision_is_appropriate_over_or_under_and_safe_means_not_under():
    generator = np.random.default_rng(0)
    counts = generator.multinomial(3, [0.25] * 4, 100)
    quality = metrics.triage_quality(generator.integers(0, 4, [5, 100]), counts)
    np.testing.assert_allclose(quality["appropriateness"] + quality["over_triage"] + quality["under_triage"], 1.0)
    np.testing.assert_allclose(quality["safety"], 1.0 - quality["under_triage"])


def test_agent_metrics_average_over_orders():
    outcomes = Outcomes(
        decisions=np.array([[0], [3]]),
        questions=np.array([[2], [4]]),
        evidence_seen=np.array([[3], [4]]),
        forced=np.array([[False], [True]]),
    )
    found = metrics.agent_metrics(outcomes, COUNTS[:1])
    assert [found[name].tolist() for name in ("questions", "evidence_seen", "forced")] == [[3.0], [3.5], [0.5]]


def test_constant_policies():
    found = metrics.constant_metrics(COUNTS)
    # Always Green: {Red, Green} yes, {Yellow} under, {Green, Blue} yes.
    assert found["Green"]["appropriateness"].tolist() == [1.0, 0.0, 1.0]
    assert found["Red"]["safety"].tolist() == [1.0, 1.0, 1.0]


def test_human_baseline_worked_out_by_hand():
    # {Red, Red, Green}: each Red against {Red, Green}: appropriate and safe. Green against {Red, Red}: neither.
    # {Yellow, Green, Blue}: Yellow against {Green, Blue}: too urgent, safe. Green against {Yellow, Blue}: both.
    # Blue against {Yellow, Green}: neither.
    # {Red, Blue}: two decisions only, left out.
    counts = np.array([[2, 0, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1]], np.uint8)
    found = metrics.human_metrics(counts)
    np.testing.assert_allclose(found["appropriateness"], [2 / 3, 1 / 3])
    np.testing.assert_allclose(found["safety"], [2 / 3, 2 / 3])


def _naive_human(counts):
    decisions = [column for column in range(4) for _ in range(counts[column])]
    fits, safes = 0, 0
    for index, decision in enumerate(decisions):
        others = decisions[:index] + decisions[index + 1 :]
        fits += min(others) <= decision <= max(others)
        safes += decision <= max(others)
    return fits / len(decisions), safes / len(decisions)


def test_human_baseline_agrees_with_a_naive_oracle():
    counts = np.random.default_rng(1).multinomial(5, [0.1, 0.3, 0.5, 0.1], 60)
    found = metrics.human_metrics(counts)
    expected = np.array([_naive_human(row) for row in counts])
    np.testing.assert_allclose(np.stack([found["appropriateness"], found["safety"]], axis=1), expected)


def test_bootstrap_interval_covers_as_often_as_it_says():
    generator = np.random.default_rng(2)
    covered = 0
    for trial in range(200):
        found = metrics.estimate(generator.random(60), trial)
        covered += found.low <= 0.5 <= found.high
    assert 0.89 * 200 <= covered <= 0.99 * 200  # 95% expected, standard deviation 1.5%


def test_interval_width_is_that_of_the_normal_approximation():
    values = np.tile([0.0, 1.0], 200)
    found = metrics.estimate(values, seed=0)
    assert found.mean == 0.5
    assert found.vignettes == 400
    # 1.96 * .5 / sqrt(400) = .049 on each side
    assert found.high - found.mean == pytest.approx(0.049, abs=0.006)
    assert found.mean - found.low == pytest.approx(0.049, abs=0.006)
    assert metrics.estimate(values, seed=0) == found


def test_a_single_vignette_has_no_interval():
    assert metrics.estimate(np.array([0.25]), seed=0) == metrics.Estimate(0.25, None, None, 1)

import numpy as np
import pytest

from schemas.triage import Action
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import metrics

# Columns: Red, Yellow, Green, Blue.
COUNTS = np.array([[1, 0, 1, 0], [0, 2, 0, 0], [0, 0, 1, 3]], np.uint8)


def test_triage_quality_worked_out_by_hand_over_two_evidence_orders():
    decisions = np.array([[Action.YELLOW, Action.RED, Action.BLUE], [Action.BLUE, Action.GREEN, Action.YELLOW]])
    # Vignette 0 {Red, Green}: Yellow is appropriate, Blue under. Vignette 1 {Yellow}: Red over, Green under.
    # Vignette 2 {Green, Blue}: Blue is appropriate, Yellow over.
    quality = metrics.triage_quality(decisions, COUNTS)
    assert quality["appropriateness"].tolist() == [0.5, 0.0, 0.5]
    assert quality["over_triage"].tolist() == [0.0, 0.5, 0.5]
    assert quality["under_triage"].tolist() == [0.5, 0.5, 0.0]
    assert quality["safety"].tolist() == [0.5, 0.5, 1.0]


def test_agent_metrics_average_over_orders():
    outcomes = Outcomes(
        decisions=np.array([[0], [3]]),
        questions=np.array([[2], [4]]),
        evidence_seen=np.array([[3], [4]]),
        forced=np.array([[False], [True]]),
    )
    values = metrics.agent_metrics(outcomes, COUNTS[:1])
    assert [values[name].tolist() for name in ("questions", "evidence_seen", "forced")] == [[3.0], [3.5], [0.5]]


def test_constant_policies():
    values = metrics.constant_metrics(COUNTS)
    # Always Green: {Red, Green} yes, {Yellow} under, {Green, Blue} yes.
    assert values["Green"]["appropriateness"].tolist() == [1.0, 0.0, 1.0]
    assert values["Red"]["safety"].tolist() == [1.0, 1.0, 1.0]


def test_human_baseline_worked_out_by_hand():
    # {Red, Red, Green}: each Red against {Red, Green}: appropriate and safe. Green against {Red, Red}: neither.
    # {Yellow, Green, Blue}: Yellow against {Green, Blue}: too urgent, safe. Green against {Yellow, Blue}: both.
    # Blue against {Yellow, Green}: neither.
    # {Red, Blue}: two decisions only, left out.
    counts = np.array([[2, 0, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1]], np.uint8)
    agreement = metrics.quality_by_others(counts, 3)
    np.testing.assert_allclose(agreement["appropriateness"], [2 / 3, 1 / 3])
    np.testing.assert_allclose(agreement["safety"], [2 / 3, 2 / 3])


def test_interval_width_is_that_of_the_normal_approximation():
    values = np.tile([0.0, 1.0], 200)
    estimate = metrics.estimate(values, seed=0)
    assert estimate.mean == 0.5
    assert estimate.vignettes == 400
    # 1.96 * .5 / sqrt(400) = .049 on each side
    assert estimate.high - estimate.mean == pytest.approx(0.049, abs=0.006)
    assert estimate.mean - estimate.low == pytest.approx(0.049, abs=0.006)
    assert metrics.estimate(values, seed=0) == estimate


def test_a_single_vignette_has_no_interval():
    assert metrics.estimate(np.array([0.25]), seed=0) == metrics.Estimate(0.25, None, None, 1)


@pytest.mark.parametrize(("value", "ends"), [(1.0, (0.8049, 1.0)), (0.0, (0.0, 0.1951))])
def test_a_share_of_none_or_all_has_the_exact_interval_and_a_count_or_a_difference_has_not(value, ends):
    # Of 17, the end inside is .025 to the power of 1/17, or 1 less that (Clopper and Pearson).
    same = {"safety": np.full(17, value), "questions": np.full(17, value)}
    found = metrics.summary(same, seed=0)
    assert (*found["safety"].ends, found["safety"].vignettes) == pytest.approx((*ends, 17), abs=1e-4)
    assert found["questions"].ends == (value, value)
    assert metrics.summary(same, seed=0, paired=True)["safety"].ends == (value, value)


def _ratio(sums):
    with np.errstate(invalid="ignore"):
        return sums[:, :1] / sums[:, 1:]


def test_numerator_and_denominator_of_a_ratio_are_resampled_together():
    # Every vignette has ratio 1/2, with denominators that differ: no sample has another ratio.
    denominators = np.arange(1.0, 41.0)
    [ratio] = metrics.estimates_of_sums(np.stack([denominators / 2, denominators], axis=1), _ratio, [40], seed=0)
    assert ratio[:3] == pytest.approx((0.5, 0.5, 0.5))


def test_a_ratio_without_denominator_is_none_and_resamples_without_one_are_left_out():
    parts = np.zeros([10, 2])
    assert metrics.estimates_of_sums(parts, _ratio, [10], seed=0) == [None]
    parts[:2] = [[1, 1], [1, 1]]  # a tenth of the samples have neither
    assert metrics.estimates_of_sums(parts, _ratio, [2], seed=0) == [(1.0, 1.0, 1.0, 2)]


def test_a_bootstrap_sample_has_as_many_vignettes_as_the_data_whatever_the_batches(monkeypatch):
    parts = np.stack([np.ones(50), np.arange(50.0)], axis=1)
    sums = metrics.resampled_sums(parts, seed=3)
    assert sums.shape == (metrics.RESAMPLES, 2)
    assert (sums[:, 0] == 50).all()
    # The sum of 50 draws from 0 to 49 has mean 1225 and standard deviation sqrt(50 * (50^2 - 1) / 12) = 102.
    assert sums[:, 1].mean() == pytest.approx(1225, abs=10)
    assert sums[:, 1].std() == pytest.approx(102, rel=0.08)
    monkeypatch.setattr(metrics, "_DRAWN_AT_ONCE", 50 * 300)
    np.testing.assert_array_equal(metrics.resampled_sums(parts, seed=3), sums)

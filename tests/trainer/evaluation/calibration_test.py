import numpy as np
import pytest

from trainer.evaluation import calibration
from trainer.evaluation.calibration import Pairs


def _draw(vignettes, shift, seed, orders=4):
    """Predictions around .75, and outcomes that come true with the predicted probability minus `shift`."""
    generator = np.random.default_rng(seed)
    predicted = np.clip(generator.beta(6, 2, vignettes) + generator.normal(0, 0.05, [orders, vignettes]), 0, 1)
    return Pairs(predicted, (generator.random([orders, vignettes]) < predicted - shift).astype(float))


def test_calibration_error_worked_out_by_hand():
    # .95 twice with outcomes 1 and 0: |1.9 - 1| = .9. .15 once with outcome 0: .15. (.9 + .15) / 3 = .35.
    pairs = Pairs(np.array([[0.95, 0.95, 0.15]]), np.array([[1.0, 0.0, 0.0]]))
    figures = calibration.calibration(pairs, seed=0)
    assert figures.expected_calibration_error.mean == pytest.approx(0.35)
    # Mean of .05^2, .95^2 and .15^2.
    assert figures.brier_score.mean == pytest.approx((0.0025 + 0.9025 + 0.0225) / 3)
    assert figures.gap.mean == pytest.approx((0.95 + 0.95 + 0.15 - 1) / 3)


def test_bins_include_their_lower_end_and_the_last_one_includes_1():
    pairs = Pairs(np.array([[0.0, 0.5, 0.59, 1.0]]), np.array([[0.0, 1.0, 0.0, 1.0]]))
    curve = calibration.calibration(pairs, seed=0).curve
    assert [part.states for part in curve] == [1, 0, 0, 0, 0, 2, 0, 0, 0, 1]
    assert (curve[5].low, curve[5].high, curve[5].predicted) == (0.5, 0.6, pytest.approx(0.545))
    assert curve[5].observed.mean == 0.5
    assert (curve[1].predicted, curve[1].observed) == (None, None)


def test_best_decision_is_never_ask_and_a_tie_goes_to_the_more_urgent_one():
    q_values = np.array([[[0.1, 0.2, 0.6, 0.3, 0.9], [0.1, 0.5, 0.5, 0.2, 0.0]]], np.float32)
    # Green against {Red, Blue}: between them, appropriate. Yellow (the tie) against {Green}: over-triage.
    pairs = calibration.best_decision_pairs(q_values, np.array([[1, 0, 0, 1], [0, 0, 2, 0]]))
    np.testing.assert_allclose(pairs.predicted, [[0.6, 0.5]], rtol=1e-6)
    assert pairs.observed.tolist() == [[1.0, 0.0]]


def test_the_interval_of_the_calibration_error_contains_it_and_that_of_a_calibrated_agent():
    reached = 0
    for trial in range(20):
        error = calibration.calibration(_draw(100, 0.0, seed=trial), seed=trial).expected_calibration_error
        assert 0.0 <= error.low <= error.mean <= error.high <= 1.0
        reached += error.low < 0.005
    # A percentile interval would lie above 0 each time.
    assert reached >= 12


def test_the_probabilities_of_every_decision_are_pairs_of_their_own():
    # Red and Yellow are appropriate; everything but Green and Blue is safe.
    heads = {"appropriate": np.array([[[0.1, 0.9, 0.3, 0.0]]]), "safe": np.array([[[1.0, 0.95, 0.4, 0.2]]])}
    pairs = calibration.every_probability_pairs(heads, np.array([[1, 2, 0, 0]]))
    np.testing.assert_array_equal(pairs["appropriate"].predicted[:, 0], [0.1, 0.9, 0.3, 0.0])
    np.testing.assert_array_equal(pairs["appropriate"].observed[:, 0], [1, 1, 0, 0])
    np.testing.assert_array_equal(pairs["safe"].predicted[:, 0], [1.0, 0.95, 0.4, 0.2])
    np.testing.assert_array_equal(pairs["safe"].observed[:, 0], [1, 1, 0, 0])
    heads["q"] = np.ones([1, 1, 5])  # utilities, which are not calibrated
    found = calibration.figures(heads, np.array([[1]]), np.array([[1, 2, 0, 0]]), seed=0)
    assert found["calibration"] is None
    figures = found["probabilities"]
    assert figures["own_decision"]["appropriate"].predicted.mean == pytest.approx(0.9)
    assert figures["every_decision"]["appropriate"].predicted.mean == pytest.approx(1.3 / 4)

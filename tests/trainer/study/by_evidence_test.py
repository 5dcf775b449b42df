import numpy as np
import pytest
import scipy.sparse

from trainer.evaluation.figures import Estimate
from trainer.study.by_evidence import calibration_figures, curve, judge
from trainer.study.supervised import PowersetRows

GREEN, RED = [0, 0, 1, 0], [1, 0, 0, 0]


def rows(*parts):
    """Rows of D_pow from (number of pieces, decision counts, vignette)."""
    states = np.array([[1.0] * pieces + [0.0] * (6 - pieces) for pieces, _, _ in parts], np.float32)
    counts, groups = ([part[place] for part in parts] for place in (1, 2))
    return PowersetRows(scipy.sparse.csr_matrix(states), np.array(counts, np.uint8), np.array(groups))


def says_red_from(pieces, value=0.9):
    def triage(states):
        known = states.getnnz(axis=1)[:, np.newaxis]
        return np.where(known >= pieces, [[value, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.6, 0.0]])

    return triage


def test_a_curve_has_the_states_and_vignettes_behind_each_point():
    drawn = rows((0, GREEN, 4), (1, GREEN, 4), (1, GREEN, 4), (1, RED, 9), (2, RED, 9))
    points = curve(judge(says_red_from(2), drawn), seed=0)
    intervals = [each.pop("intervals") for each in points]
    # After one piece it says Green, which is right in the two rows of vignette 4.
    assert points == [
        {"pieces": 0, "states": 1, "vignettes": 1, "appropriateness": 1.0, "safety": 1.0, "confidence": 0.6},
        {"pieces": 1, "states": 3, "vignettes": 2, "appropriateness": pytest.approx(2 / 3),
         "safety": pytest.approx(2 / 3), "confidence": pytest.approx(0.6)},
        {"pieces": 2, "states": 1, "vignettes": 1, "appropriateness": 1.0, "safety": 1.0, "confidence": 0.9},
    ]  # fmt: skip
    assert intervals[0]["safety"] == [None, None]  # a single vignette leaves none
    assert intervals[1]["safety"] == [0.0, 1.0]  # of two vignettes: their rows are not independent


def test_calibration_is_compared_on_small_sets_and_by_its_rise():
    drawn = rows(*((pieces, RED, vignette) for vignette in range(20) for pieces in (0, 1, 2, 4, 6)))
    early, late = (judge(says_red_from(pieces), drawn) for pieces in (2, 5))
    figures = calibration_figures(early, late, seed=0)
    # Of 1 and 2 pieces, one is right with the one and none with the other; 0 and 4 pieces are no small sets.
    assert figures["small_sets"]["appropriateness"] == Estimate(0.5, 0.5, 0.5, 20)
    # Right: 0 0 1 1 1 over 0 1 2 4 6. Means .6 and 2.6; sum of (x - 2.6)(y - .6) = 12 - 7.8 = 4.2; of squares 23.2.
    assert figures["rise"].mean == pytest.approx(4.2 / 23.2)
    # Half of the rows of each size are right with `even`: no scatter. `early` leaves its line by these residuals.
    even = early._replace(values=np.full_like(early.values, 0.5))
    assert calibration_figures(even, even, seed=0)["scatter"].mean == 0.0
    residuals = np.array([0, 0, 1, 1, 1]) - 0.6 - 4.2 / 23.2 * (np.array([0, 1, 2, 4, 6]) - 2.6)
    scatter = calibration_figures(early, even, seed=0)["scatter"]
    assert scatter.mean == pytest.approx(np.sqrt((residuals**2).mean()))
    assert calibration_figures(even, early, seed=0)["scatter"].mean == pytest.approx(-scatter.mean)
    large = judge(says_red_from(2), rows((4, RED, 0)))
    assert calibration_figures(large, large, seed=0)["small_sets"] is None

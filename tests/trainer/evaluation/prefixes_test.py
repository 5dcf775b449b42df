import numpy as np
import pytest

from trainer.evaluation.prefixes import metrics_by_evidence, prefix_outputs

E = 6


def _red_once_the_first_cell_is_known(states):
    """Red where evidence 0 is present, Blue elsewhere; the value is a tenth of the pieces known."""
    values = np.zeros([len(states), 4])
    known = np.abs(states).sum(axis=1) / 10
    seen = states[:, 0] == 1
    values[seen, 0] = known[seen]
    values[~seen, 3] = known[~seen]
    return values


def _measured(vignettes, triage, orders):
    return metrics_by_evidence(prefix_outputs(triage, vignettes, E, orders), vignettes, seed=0)


def test_the_decisive_piece_has_been_seen_in_k_of_n_orders(vignettes_of):
    vignettes = vignettes_of([([1, 2, -3], [1, 0, 0, 0])])
    points = _measured(vignettes, _red_once_the_first_cell_is_known, range(600))
    assert [point.evidence for point in points] == [1, 2, 3]
    # 1/3, 2/3, 1: standard deviation at most .02 over 600 orders.
    for place, point in enumerate(points, start=1):
        assert point.appropriateness.mean == pytest.approx(place / 3, abs=0.07)
        assert point.safety.mean == point.appropriateness.mean
        assert point.best_value.mean == pytest.approx(place / 10)
    assert points[2].appropriateness.mean == 1.0


def test_each_point_is_over_the_vignettes_with_so_many_pieces(vignettes_of):
    vignettes = vignettes_of([([2], [1, 0, 0, 0]), ([1, 2, 3], [1, 0, 0, 0]), ([3, 4], [0, 0, 0, 1])])
    points = _measured(vignettes, _red_once_the_first_cell_is_known, [0, 1])
    assert [point.vignettes for point in points] == [3, 2, 1]
    # Two pieces: always Blue for vignette 2, appropriate. Three: Red for vignette 1. The first vignette never counts.
    assert points[2].appropriateness.mean == 1.0
    assert points[2].appropriateness.low is None
    assert points[0].safety.mean <= 2 / 3  # Blue for vignette 0


def test_states_grow_by_one_piece_of_the_vignette_at_a_time(vignettes_of):
    [states] = prefix_outputs(lambda each: each, vignettes_of([([1, -2, 3, -6], [1, 0, 0, 0])]), E, [7])
    assert states.dtype == np.float32
    assert np.abs(states).sum(axis=1).tolist() == [1, 2, 3, 4]
    assert (np.diff(np.abs(states), axis=0) >= 0).all()
    assert states[-1].tolist() == [1, -1, 1, 0, 0, -1]

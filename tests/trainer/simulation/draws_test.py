import numpy as np
import pytest
import scipy.stats

from trainer.simulation.draws import Draws, evenly_spread


def test_uniform_numbers_are_the_upper_53_bits_of_the_raw_words():
    words = np.random.Philox(key=np.array([3, 5], np.uint64)).random_raw(4)
    expected = [((int(word) >> 11) + 0.5) / 2**53 for word in words]
    np.testing.assert_array_equal(Draws(3, 5).uniform(2, 2), np.reshape(expected, (2, 2)))


def test_the_largest_log_weight_plus_gumbel_is_a_draw_in_proportion():
    weights = np.array([0.5, 0.3, 0.15, 0.05])
    chosen = (np.log(weights) + Draws(2, 0).gumbel(20_000, 4)).argmax(axis=1)
    assert scipy.stats.chisquare(np.bincount(chosen, minlength=4), 20_000 * weights).pvalue > 1e-3


@pytest.mark.parametrize("seed", [0, 1, 2**63])
@pytest.mark.parametrize("column", range(5))
def test_evenly_spread_numbers_fill_every_tenth_alike(seed, column):
    counts = np.bincount((evenly_spread(seed, 0, 1000, column) * 10).astype(int), minlength=10)
    # Independent numbers would have an SD of 9.5 here.
    assert counts.min() >= 95
    assert counts.max() <= 105


def test_evenly_spread_numbers_do_not_depend_on_where_a_block_begins():
    whole = evenly_spread(7, 0, 600, 2)
    np.testing.assert_array_equal(np.concatenate([evenly_spread(7, 0, 250, 2), evenly_spread(7, 250, 350, 2)]), whole)


def test_evenly_spread_columns_are_independent():
    numbers = np.stack([evenly_spread(0, 0, 2000, column) for column in range(5)])
    assert np.abs(np.corrcoef(numbers) - np.eye(5)).max() < 0.05

"""Novelty: what goes together in training is usual, and what does not is novel."""

import numpy as np
import pytest
import tensorflow as tf

from trainer import novelty

EVIDENCE, GROUP = 40, 10


def made(count, seed):
    """Vignettes of four kinds of patients: each has pieces of a group of 10 only, half of them absent."""
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        cells = generator.integers(0, 4) * GROUP + generator.permutation(GROUP)[: generator.integers(3, 9)]
        rows.append((cells + 1) * np.where(cells % 2, 1, -1))
    return rows


class Vignettes:
    def __init__(self, rows):
        self.offsets = np.cumsum([0] + [len(row) for row in rows])
        self.signed_codes = np.concatenate(rows)


def states(rows):
    dense = np.zeros([len(rows), EVIDENCE], np.float32)
    for state, row in zip(dense, rows, strict=True):
        state[np.abs(row) - 1] = np.sign(row)
    return tf.constant(dense)


@pytest.fixture(scope="module")
def fitted():
    return novelty.fit(Vignettes(made(600, 0)), EVIDENCE, seed=0)


def test_moments_of_unseen_vignettes_are_spread_over_the_percentiles(fitted):
    moments = novelty.moments(made(300, 1), np.random.default_rng(2))
    found = fitted.percentiles(states(moments)).numpy()
    assert len(found) == 4800
    # Uniform in [0, 1] has the mean 1/2; the standard error of the mean over 300 vignettes is at most .29/17 = .017,
    # and that of the 120 behind the percentiles .026.
    assert found.mean() == pytest.approx(0.5, abs=0.12)
    assert (found > novelty.THRESHOLD).mean() < 0.03


def test_evidence_that_never_goes_together_is_novel(fitted):
    generator = np.random.default_rng(3)
    cells = [np.arange(4) * GROUP + generator.integers(0, 10, 4) for _ in range(100)]  # one piece of each group
    mixed = [(row + 1) * np.where(row % 2, 1, -1) for row in cells]
    turned = [-row for row in made(100, 4)]  # present where it is always absent, and the other way round
    for strange in (mixed, turned):
        assert (fitted.percentiles(states(strange)).numpy() > novelty.THRESHOLD).mean() > 0.9


def test_nothing_known_is_not_novel(fitted):
    assert fitted.percentiles(tf.zeros([1, EVIDENCE])).numpy().tolist() == [0.0]


def test_the_score_is_that_of_the_fit(fitted):
    rows = made(20, 5)
    known = novelty.literals(rows, EVIDENCE)
    expected = novelty._scores(known, fitted.log_prior, fitted.log_literals)
    np.testing.assert_allclose(fitted.scores(states(rows)), expected, rtol=1e-4, atol=1e-4)


def test_a_few_vignettes_give_no_statistics():
    assert novelty.fit(Vignettes(made(99, 0)), EVIDENCE, seed=0) is None


def test_what_is_kept_loses_nothing_in_half_precision(fitted):
    for values in fitted[:3]:
        np.testing.assert_array_equal(values.astype(np.float16), values)


def test_a_state_with_the_score_of_a_moment_is_not_above_it():
    score = np.float32(1.2345)
    table = novelty._quantiles(np.full(200, score), np.full(200, 3))
    assert (table >= score + novelty._APART / 2).all()  # far above any rounding error
    assert (table < score + 0.005).all()

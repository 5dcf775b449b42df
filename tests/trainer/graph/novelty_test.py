"""Novelty: what goes together in training is usual, and what does not is novel."""

import numpy as np
import pytest
import tensorflow as tf

from tests.builders import symptoms
from tests.trainer.conftest import make_vignettes
from trainer.graph import novelty

EVIDENCE, GROUP = 40, 10


def made(count, seed):
    """Vignettes of four kinds of patients: each has pieces of a group of 10 only, half of them absent."""
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        cells = generator.integers(0, 4) * GROUP + generator.permutation(GROUP)[: generator.integers(3, 9)]
        rows.append((cells + 1) * np.where(cells % 2, 1, -1))
    return rows


def vignettes(rows):
    return make_vignettes([(row, [1, 0, 0, 0]) for row in rows])


def vocabulary_of(count):
    return symptoms(*(f"e{cell}" for cell in range(count)))


def states(rows):
    dense = np.zeros([len(rows), EVIDENCE], np.float32)
    for state, row in zip(dense, rows, strict=True):
        state[np.abs(row) - 1] = np.sign(row)
    return tf.constant(dense)


@pytest.fixture(scope="module")
def fitted():
    return novelty.fit(vignettes(made(600, 0)), vocabulary_of(EVIDENCE), seed=0)


def test_moments_of_unseen_vignettes_are_spread_over_the_percentiles(fitted):
    moments = novelty.moments(made(300, 1), np.random.default_rng(2))
    percentiles = fitted.percentiles(states(moments)).numpy()
    assert len(percentiles) == 4800
    # Uniform in [0, 1] has the mean 1/2; the standard error of the mean over 300 vignettes is at most .29/17 = .017,
    # and that of the 120 behind the percentiles .026.
    assert percentiles.mean() == pytest.approx(0.5, abs=0.12)
    assert (percentiles > novelty.THRESHOLD).mean() < 0.03


def test_one_piece_is_novel_only_if_training_never_saw_it():
    """However rare: "worst headache of my life" alone, which fires a rule, is not unlike anything seen."""
    rare, unseen = EVIDENCE, EVIDENCE + 1
    rows = [*made(1200, 0), *(np.append(row, rare + 1) for row in made(4, 5))]
    signs = np.where(np.arange(EVIDENCE + 2) % 2, 1, -1)  # of each piece in training
    signs[rare] = 1
    fitted = novelty.fit(vignettes(rows), vocabulary_of(EVIDENCE + 2), seed=0)
    percentiles = np.array(fitted.percentiles(tf.constant(np.diag(signs).astype(np.float32))))
    assert (percentiles > novelty.THRESHOLD).nonzero()[0].tolist() == [unseen]


def test_evidence_that_never_goes_together_is_novel(fitted):
    generator = np.random.default_rng(3)
    cells = [np.arange(4) * GROUP + generator.integers(0, 10, 4) for _ in range(100)]  # one piece of each group
    mixed = [(row + 1) * np.where(row % 2, 1, -1) for row in cells]
    turned = [-row for row in made(100, 4)]  # present where it is always absent, and the other way round
    for strange in (mixed, turned):
        assert (fitted.percentiles(states(strange)).numpy() > novelty.THRESHOLD).mean() > 0.9


def interviews(count, seed):
    """Moments of interviews with such patients, who deny whatever of the other groups they are asked about."""
    generator = np.random.default_rng(seed)
    rows = []
    for row in made(count, seed):
        others = np.setdiff1d(np.arange(EVIDENCE), (np.abs(row[0]) - 1) // GROUP * GROUP + np.arange(GROUP))
        denied = -1 - generator.permutation(others)[: generator.integers(1, 26)]
        rows.append(np.concatenate([row, denied]))
    return rows


def test_what_is_usual_in_interviews_is_not_novel(fitted):
    fresh = states(interviews(300, 7))
    assert (fitted.percentiles(fresh).numpy() > novelty.THRESHOLD).mean() > 0.5
    wider = novelty.with_interviews(fitted, states(interviews(600, 6)).numpy(), vocabulary_of(EVIDENCE))
    assert (wider.percentiles(fresh).numpy() > novelty.THRESHOLD).mean() < 0.03
    # The limits are never lower than before, also for more pieces than vignettes have.
    assert len(wider.limits) > len(fitted.limits)
    assert (wider.limits[: len(fitted.limits)] >= fitted.limits).all()


def test_the_score_is_that_of_the_fit(fitted):
    rows = made(20, 5)
    logs = novelty.literals(rows, EVIDENCE) @ fitted.log_literals
    expected = logs[:, -1] - np.log(np.exp(logs[:, :-1] + fitted.log_prior).sum(axis=1))
    np.testing.assert_allclose(fitted.scores(states(rows)), expected, rtol=1e-4, atol=1e-4)


def test_a_state_with_the_score_of_a_moment_is_not_above_it():
    row = np.array([1])  # the only moment there is
    fitted = novelty.fit(vignettes([row] * 200), vocabulary_of(EVIDENCE), seed=0)
    score = fitted.scores(states([row])).numpy()
    assert (fitted.quantiles >= score + 0.0005).all()  # far above any rounding error
    assert (fitted.quantiles < score + 0.005).all()

import numpy as np
import pytest

from schemas.triage import Action
from trainer.study import baselines

E = 6


@pytest.fixture(scope="module")
def many(vignettes_of):
    """1,000 vignettes: Red alone is appropriate."""
    return vignettes_of([([1, 2, -3], [2, 0, 0, 0])] * 1000)


def test_the_random_agent_asks_a_quarter_of_a_question(many):
    # The number of questions before one of the four triage actions (4/5) comes is geometric: mean (1/5) / (4/5) = .25,
    # variance .25 * 1.25, so that the mean of 5,000 episodes has a standard deviation of .008.
    outcomes = baselines.random_outcomes(many, E, range(5), seed=0, max_questions=23)
    assert outcomes.questions.mean() == pytest.approx(0.25, abs=0.03)
    assert (outcomes.decisions == Action.RED).mean() == pytest.approx(0.25, abs=0.025)  # deviation .006
    assert outcomes.forced.mean() == 0.0


def test_the_random_agent_never_asks_where_it_must_triage(many):
    outcomes = baselines.random_outcomes(many, E, range(5), seed=0, max_questions=1)
    # It is forced after its one question, which it asks with 1/5: deviation .006.
    assert outcomes.forced.mean() == outcomes.questions.mean() == pytest.approx(0.2, abs=0.025)
    shares = np.bincount(outcomes.decisions[outcomes.forced], minlength=5) / outcomes.forced.sum()
    np.testing.assert_allclose(shares, [0.25, 0.25, 0.25, 0.25, 0.0], atol=0.06)  # deviation .014


def test_the_random_agent_is_that_of_its_seed(random_vignettes):
    first, again, other = (
        baselines.random_outcomes(random_vignettes, 30, [4, 5], seed, max_questions=23) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.decisions, again.decisions)
    np.testing.assert_array_equal(first.questions, again.questions)
    assert (first.decisions != other.decisions).any()
    assert (first.decisions[0] != first.decisions[1]).any()


def test_always_green_asks_nothing_and_knows_one_piece(vignettes_of):
    vignettes = vignettes_of([([1, 2], [1, 0, 1, 0]), ([3], [1, 2, 0, 0]), ([4], [0, 0, 0, 3])])
    outcomes = baselines.always_outcomes(Action.GREEN, vignettes)
    assert outcomes.decisions.tolist() == [[Action.GREEN] * 3]
    assert (outcomes.questions.tolist(), outcomes.evidence_seen.tolist()) == ([[0] * 3], [[1] * 3])
    assert not outcomes.forced.any()


def test_the_fully_observed_agent_sees_all_evidence_of_each_vignette(vignettes_of):
    shown = []

    def triage(states):
        shown.append(states.toarray().tolist())
        values = np.zeros([states.shape[0], 4])
        values[0, [Action.YELLOW, Action.GREEN]] = 0.5  # equal: the more urgent one
        values[1, Action.BLUE] = 1.0
        return values

    vignettes = vignettes_of([([1, -3], [0, 1, 0, 0]), ([2], [0, 0, 3, 0])])
    assert baselines.fully_observed_decisions(triage, vignettes, 3).tolist() == [[Action.YELLOW, Action.BLUE]]
    assert shown == [[[1, 0, -1], [0, 1, 0]]]

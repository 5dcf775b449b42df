import numpy as np
import pytest

from tests.builders import symptoms
from tests.trainer.conftest import make_vignettes
from trainer.dyqn.rollout import Slice
from trainer.graph import mixture


def vocabulary_of(count, **more):
    return symptoms(*(f"e{cell}" for cell in range(count)), **more)


@pytest.fixture(scope="module")
def vignettes():
    """Two kinds of patients: with 1 and 2 present, all Red; with 3 present and 1 denied, all Blue."""
    kinds = [([1, 2], [3, 0, 0, 0]), ([3, -1], [0, 0, 0, 2])]
    return make_vignettes(kinds * 3000)


@pytest.fixture(scope="module")
def fitted(vignettes):
    return mixture.fit(vignettes, vocabulary_of(4), seed=0)


def _given(fitted, present):
    """The probability of each class where a code is present."""
    weights = np.exp(fitted.log_prior) * fitted.present[:, present]
    return weights / weights.sum()


def test_what_goes_together_is_likely_together(fitted):
    likely = _given(fitted, 0) @ fitted.present
    assert likely[1] > 0.9
    assert likely[2] < 0.1


def test_classes_have_the_decisions_about_their_patients(fitted):
    truths = _given(fitted, 0) @ fitted.truths
    # Red patients: only Red is appropriate, and only Red is safe. Blue ones: every decision is safe.
    np.testing.assert_allclose(truths, [1, 0, 0, 0, 1, 0, 0, 0], atol=0.1)
    np.testing.assert_allclose(_given(fitted, 2) @ fitted.truths, [0, 0, 0, 1, 1, 1, 1, 1], atol=0.1)


def test_the_least_urgent_decision_of_a_class_is_up_to_where_decisions_are_safe(fitted):
    np.testing.assert_allclose(_given(fitted, 0) @ fitted.least_urgent, [1, 0, 0, 0], atol=0.1)
    np.testing.assert_allclose(_given(fitted, 2) @ fitted.least_urgent, [0, 0, 0, 1], atol=0.1)
    # Safe in 1, .7, .2 and .004: .3, .5, .196 and .01 at least, of 1.006.
    one = fitted._replace(truths=np.array([[0.5] * 4 + [0.99, 0.7, 0.2, 0.004]], np.float32))
    np.testing.assert_allclose(one.least_urgent, [np.array([0.3, 0.5, 0.196, 0.01]) / 1.006], rtol=1e-5)


def test_what_is_not_listed_counts_as_absent_but_not_as_denied(fitted):
    prior = np.exp(fitted.log_prior)
    assert prior @ fitted.present[:, 0] == pytest.approx(0.5, abs=0.05)  # of all patients half have it
    assert prior @ fitted.present[:, 1] == pytest.approx(0.5, abs=0.05)
    assert prior @ fitted.denied[:, 0] == pytest.approx(0.5, abs=0.05)
    assert prior @ fitted.denied[:, 1] == pytest.approx(0, abs=0.01)


def test_of_age_and_sex_only_those_count_that_list_them():
    """A vignette in ten says child, 2, or adult, 3, alike often; everybody has 1. A class is 25 of 1,000 patients."""
    vignettes = make_vignettes([(codes, [1, 0, 0, 0]) for codes in ([1, 2], [1, 3], *([[1]] * 18))] * 50)
    bands = vocabulary_of(4, exclusive={"e1": "age", "e2": "age"})
    alone, group = (mixture.fit(vignettes, each, seed=0) for each in (vocabulary_of(4), bands))
    assert np.exp(alone.log_prior) @ alone.present[:, 1] == pytest.approx(0.05, abs=0.01)
    assert group.present[:, 1] + group.present[:, 2] == pytest.approx(1, abs=0.01)
    assert np.exp(group.log_prior) @ group.present[:, 1] == pytest.approx(0.5, abs=0.05)


def test_what_everybody_has_may_still_be_absent():
    """In half precision 1 - .0001 is 1, and the logarithm of 0 would spoil every value."""
    everybody = make_vignettes([([1, 2], [1, 0, 0, 0])] * 1000)
    fitted = mixture.fit(everybody, vocabulary_of(3), seed=0)
    assert np.isfinite(fitted.log_literals).all()
    assert (fitted.present[:, 0] > 0.99).all()


def test_what_follows_from_a_vignette_counts_as_listed(vignettes):
    """The pieces are 1, 2, 3 and 4; nobody lists the last one, which is the parent of the first."""
    fitted = mixture.fit(vignettes, vocabulary_of(4, parents={"e0": "e3"}), seed=0)
    np.testing.assert_allclose(fitted.present[:, 3], fitted.present[:, 0], atol=1e-3)


def test_few_vignettes_make_no_classes(vignettes):
    few = Slice(vignettes.offsets[:75], vignettes.signed_codes[:148], vignettes.decision_counts[:74])
    assert mixture.fit(few, vocabulary_of(4), seed=0) is None

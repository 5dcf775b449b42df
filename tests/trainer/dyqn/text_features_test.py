"""The vectors of codes: alike for like words, the same for the same vocabulary."""

import numpy as np

from schemas.evidence import Evidence, Vocabulary
from trainer.dyqn.text_features import LENGTH, text_features


def _vocabulary(*names):
    return Vocabulary(Evidence(name.replace(" ", "_"), "symptom", name, f"Do you have {name}?") for name in names)


PAINS = ("chest pain", "severe chest pain", "sore throat", "throat swollen", "itching skin", "skin rash", "dry cough")


def test_codes_of_like_words_have_like_vectors():
    vectors = text_features(_vocabulary(*PAINS), 4)
    assert vectors.shape == (7, 4)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1)[:6], LENGTH, rtol=1e-5)
    alike = vectors @ vectors.T / LENGTH**2
    for first in (0, 2, 4):  # the next one is about the same part of the body
        others = np.delete(alike[first], [first, first + 1])
        assert alike[first, first + 1] > 0.8 > 0.5 > others.max()


def test_codes_that_share_no_words_have_no_vectors():
    entries = [Evidence("abc", "symptom", "abc", "abc"), Evidence("xyz", "symptom", "xyz", "xyz")]
    np.testing.assert_array_equal(text_features(Vocabulary(entries), 3), np.zeros([2, 3]))
    np.testing.assert_array_equal(text_features(Vocabulary(entries[:1]), 3), np.zeros([1, 3]))

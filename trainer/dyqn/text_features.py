"""Text features of codes: similar for similar words, so that codes learn from each other.

They depend only on the vocabulary, not on vignettes.
"""

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from schemas.evidence import Vocabulary

LENGTH = 2.0
"""Length of each vector, with which the words initially weigh about as much as the code itself."""
_MOST_COMMON = 0.15
"""Strings in a larger share of the codes' texts, such as "have you", are ignored."""


def text_features(vocabulary: Vocabulary, size: int) -> np.ndarray:
    """Returns a vector for each code, made from the words of the code, its name and its question; float32 `[E, size]`.

    The features are strings of three to five letters within words, which suit any language, weighted by rarity (TF-IDF)
    and reduced by a singular value decomposition. A code that shares no such string with another has a zero vector.
    """
    texts = [" ".join((entry.code.replace("_", " "), entry.name, entry.name, entry.question)) for entry in vocabulary]
    vectors: np.ndarray = np.zeros((len(texts), size), np.float32)
    vectorizer = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 5), min_df=2, max_df=max(2, round(_MOST_COMMON * len(texts))),
        sublinear_tf=True,
    )  # fmt: skip
    try:
        rows = vectorizer.fit_transform(texts)
    except ValueError:  # no two codes share a string
        return vectors
    width = min(size, *(side - 1 for side in rows.shape))
    if width < 1:
        return vectors
    vectors[:, :width] = LENGTH * normalize(TruncatedSVD(width, random_state=0).fit_transform(rows))
    return vectors

"""Vectors for the words of codes: similar for similar words, so that what is learned of one code helps with others.

They are the vocabulary's alone. No vignette changes them.
"""

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from schemas.evidence import Vocabulary

LENGTH = 2.0
"""Of each vector: so that at the start words weigh about as much as the code itself."""
_MOST_COMMON = 0.15
"""A string that is part of a larger share of the codes' texts, such as "have you", tells nothing."""


def word_vectors(vocabulary: Vocabulary, size: int) -> np.ndarray:
    """Returns float32 `[E, size]`: a vector for the words of each code, its name and its question.

    They are strings of three to five letters within words, which know no grammar and suit any language, weighed by how
    rare they are, reduced by singular values. A code that shares no such string with another has zeros.
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

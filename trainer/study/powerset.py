"""The expanded data set D_pow: parts of the vignettes' evidence (paper, "The partially-observed model").

A vignette V of at most ten pieces of evidence gives one row for each of its 2^|V| evidence sets, including the empty
and the full one. Of a longer vignette, k = |V| - 10 pieces v_1 .. v_k are drawn; the powerset is taken over the other
ten, and each of its sets is joined with each of k growths. All rows keep the decisions of the vignette.

The paper is ambiguous about the growths: its rule ("k vignettes for each of the element of the powerset") and formula,
max(1, |V| - 10) * 2^min(|V|, 10), give k of them, its example, |V| = 12, lists k + 1: none, {v_1} and {v_1, v_2}. We
follow the formula, with the growths {v_1}, {v_1, v_2}, .. {v_1 .. v_k}: leaving out "none" makes the full evidence a
row of every vignette. The empty set is a row of vignettes of at most ten pieces.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse

from trainer.data.state import Vignettes, sparse_states
from trainer.dyqn.rollout import Slice

POWERSET_PIECES = 10
"""Maximum number of pieces of evidence that the powerset is taken over."""


class Powerset(NamedTuple):
    """R rows of D_pow."""

    states: scipy.sparse.csr_matrix  # float32 [R, E] in {-1, 0, 1}
    decision_counts: np.ndarray  # [R, 4]
    vignettes: np.ndarray  # int [R], place of the vignette that each row is a part of


def powerset(vignettes: Vignettes, evidence_count: int, seed: int) -> Powerset:
    """Returns all rows of D_pow: of the paper's 1,248 vignettes some 730,000, which take about 50 MB."""
    generator = np.random.default_rng(seed)
    kept = [
        _evidence_sets(length, generator.permutation(length)[: max(0, length - POWERSET_PIECES)])
        for length in np.diff(vignettes.offsets).tolist()
    ]
    codes = np.split(vignettes.signed_codes, vignettes.offsets[1:-1])
    pieces = [np.broadcast_to(own, sets.shape)[sets] for own, sets in zip(codes, kept, strict=True)]
    lengths = np.concatenate([sets.sum(axis=1) for sets in kept])
    places: np.ndarray = np.repeat(np.arange(len(kept)), [len(sets) for sets in kept])
    counts = vignettes.decision_counts[places]
    rows = Slice(np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(pieces), counts)
    return Powerset(sparse_states(rows, evidence_count), counts, places)


def _evidence_sets(length: int, further: np.ndarray) -> np.ndarray:
    """Returns which pieces each evidence set holds, bool `[R, length]`, growth by growth; `further` are v_1 .. v_k."""
    others = np.setdiff1d(np.arange(length), further)
    subsets: np.ndarray = np.zeros([2 ** len(others), length], bool)
    subsets[:, others] = np.arange(len(subsets))[:, np.newaxis] >> np.arange(len(others)) & 1
    growths: list[np.ndarray] = []
    for place in further:
        growths.append(growths[-1].copy() if growths else np.zeros(length, bool))
        growths[-1][place] = True
    return np.concatenate([subsets | growth for growth in growths]) if growths else subsets

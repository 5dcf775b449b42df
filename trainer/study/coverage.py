"""What training never visits, the paper's "unexplored regions" (Discussion), and how good the agent is there."""

from typing import Any

import numpy as np
import scipy.sparse

from trainer.study.by_evidence import Judged, quality_by
from trainer.study.supervised import PowersetRows

FAR = 4
"""Distance from which states are counted together."""
_AT_ONCE = 512


def distances(states: scipy.sparse.csr_matrix, visited: scipy.sparse.csr_matrix) -> np.ndarray:
    """Returns in how many pieces of evidence the nearest visited state differs, int `[R]`: 0 is a visited one.

    Args:
        states: R of them, in {-1, 0, 1}; a piece differs if it is known in one of the two, or has another answer.
        visited: one or more.
    """
    known = abs(visited).T
    held = visited.getnnz(axis=1)
    nearest = []
    for start in range(0, states.shape[0], _AT_ONCE):
        some = states[start : start + _AT_ONCE]
        both = (abs(some) @ known).toarray()  # pieces known in both, [B, N]
        alike = (both + (some @ visited.T).toarray()) / 2
        differing = some.getnnz(axis=1)[:, np.newaxis] + held - both - alike
        nearest.append(differing.min(axis=1))
    return np.concatenate(nearest).round().astype(int)


def coverage_figures(
    visited: scipy.sparse.csr_matrix, train: PowersetRows, test: PowersetRows, judged: Judged, seed: int
) -> dict[str, Any]:
    """Returns coverage and quality, ready for JSON.

    Args:
        visited: the states of training.
        train: rows of D_pow's training part: states that training could have visited, the empty ones apart.
        test: rows of D_pow's test part.
        judged: the agent's decisions on the latter.
        seed: of the bootstrap over vignettes.

    Returns:
        `by_pieces`: of each number of `pieces`, the number of `states` in `train` and the share `visited`;
        `by_distance`: the quality of the rows of `test` at each `distance`, at most `FAR`, see `quality_by`.
    """
    pieces, reached = train.states.getnnz(axis=1), distances(train.states, visited) == 0
    far = np.minimum(distances(test.states, visited), FAR)
    return {
        "visited": int(visited.shape[0]),
        "by_pieces": [
            {"pieces": count, "states": int((pieces == count).sum()), "visited": float(reached[pieces == count].mean())}
            for count in np.unique(pieces).tolist()
            if count
        ],
        "by_distance": quality_by(judged, "distance", far, seed),
    }

"""A classifier's triage values of states, given as signed codes (`trainer.vignettes.state`); each state is judged once.

A fixed classifier always gives a state the same values, and takes little longer for a thousand states than for one. So
the states that an evidence order passes through are judged together, ahead of time.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse

from schemas.triage import NUM_DECISIONS
from trainer.vignettes import state

TriageValues = Callable[[scipy.sparse.csr_matrix], np.ndarray]
"""From states float32 `[B, E]` in {-1, 0, 1} to a value of each triage decision, float `[B, 4]` in [0, 1].

A state always has the same values. An example is `triage_values` of `trainer.study.ensemble.TriageEnsemble`."""


class Prefixes(NamedTuple):
    """The states that R evidence orders pass through, P in all, order by order."""

    codes: np.ndarray  # int32 [P, W], signed codes, padded with 0
    offsets: np.ndarray  # int64 [R + 1]: order r passes through codes[offsets[r]:offsets[r + 1]], one piece to depth


class Rows(NamedTuple):
    """States as compressed sparse rows of signed codes."""

    offsets: np.ndarray
    signed_codes: np.ndarray


class StateValues:
    """A cache of the values of states, less than 300 bytes per state."""

    def __init__(self, triage_values: TriageValues, evidence_count: int):
        """Makes an empty cache.

        Args:
            triage_values: the classifier.
            evidence_count: E, the width of the states that it judges.
        """
        self._triage_values = triage_values
        self.evidence_count = evidence_count
        self._known: dict[bytes, np.ndarray] = {}

    def of(self, codes: np.ndarray) -> np.ndarray:
        """Returns the values of each state, float32 `[P, 4]`.

        Args:
            codes: int `[P, W]`, signed codes in any order, padded with 0.

        Raises:
            ValueError: the classifier's values have another shape, or are not numbers in [0, 1].
        """
        ordered = np.take_along_axis(codes, np.argsort(-np.abs(codes), axis=1, kind="stable"), axis=1).astype(np.int32)
        counts = np.count_nonzero(ordered, axis=1)
        keys = [row[:count].tobytes() for row, count in zip(ordered, counts, strict=True)]
        new = {key: place for place, key in enumerate(keys) if key not in self._known}
        if new:
            values = self._judge(ordered[list(new.values())])
            self._known.update(zip(new, values, strict=True))
        return np.stack([self._known[key] for key in keys]) if keys else np.zeros([0, NUM_DECISIONS], np.float32)

    def __len__(self) -> int:
        return len(self._known)

    def _judge(self, codes: np.ndarray) -> np.ndarray:
        values = np.asarray(self._triage_values(state.sparse_states(rows_of(codes), self.evidence_count)), np.float32)
        if values.shape != (len(codes), NUM_DECISIONS):
            raise ValueError(f"expected values [{len(codes)}, {NUM_DECISIONS}], found {list(values.shape)}")
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError("expected values in [0, 1]: the ask targets are made of probabilities")
        return values


def rows_of(codes: np.ndarray) -> Rows:
    """Returns signed codes int `[P, W]`, padded with 0, as compressed sparse rows."""
    known = codes != 0
    return Rows(np.concatenate([[0], np.cumsum(known.sum(axis=1))]), codes[known])


def prefixes(orders: np.ndarray, deepest: int) -> Prefixes:
    """Returns the states after 1, 2, ... pieces of evidence, at most `deepest`.

    Args:
        orders: int32 `[R, M]`, the signed codes of a vignette in a row, in the order in which they are revealed, padded
            with 0; at least one a row.
        deepest: 1 or more.
    """
    depths = np.minimum(np.count_nonzero(orders, axis=1), deepest)
    offsets = np.concatenate([[0], np.cumsum(depths)]).astype(np.int64)
    rows: np.ndarray = np.repeat(np.arange(len(orders)), depths)
    shown = np.arange(offsets[-1]) - offsets[rows] + 1
    width = int(depths.max(initial=0))
    codes = np.where(np.arange(width) < shown[:, np.newaxis], orders[rows, :width], 0)
    return Prefixes(codes.astype(np.int32), offsets)

"""Encodes evidence as the state vector s in {-1, 0, 1}^E, in TensorFlow and for scikit-learn.

The environment, the replay memory and the exported signatures all call it; the rule is that of `schemas.evidence`.
A *signed code* is the compact form of one piece of evidence: `index + 1` when present, `-(index + 1)` when absent, 0
for nothing.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse
import tensorflow as tf

from schemas.evidence import UNKNOWN, Vocabulary

Lookup = Callable[[tf.Tensor], tf.Tensor]


class SignedRows(Protocol):
    """V evidence sets as compressed sparse rows, such as `trainer.data.arrays.VignetteArrays`."""

    @property
    def offsets(self) -> np.ndarray:
        """Int64 `[V + 1]`: row v is `signed_codes[offsets[v]:offsets[v + 1]]`."""

    @property
    def signed_codes(self) -> np.ndarray:
        """Integers, each code at most once in a row."""


class Vignettes(SignedRows, Protocol):
    """The vignettes of a split, as `trainer.data.tfrecord` reads them; V of them."""

    @property
    def decision_counts(self) -> np.ndarray:
        """uint8 `[V, 4]`: multiplicity of each triage decision."""


class EncodedEvidence(NamedTuple):
    """Evidence codes as a state, and the codes that had no part in it."""

    states: tf.Tensor  # float32 [B, E] in {-1, 0, 1}
    unknown_codes: tf.Tensor  # string [B, U], padded with ""
    conflicting_codes: tf.Tensor  # string [B, C], padded with ""


def from_signed_codes(signed_codes: tf.Tensor, evidence_count: int) -> tf.Tensor:
    """Returns the states `[B, E]` float32 of signed codes `[B, W]` int32, each code at most once in a row."""
    cells = tf.where(signed_codes == 0, evidence_count, tf.abs(signed_codes) - 1)  # [B, W], padding to a spare cell
    rows = tf.broadcast_to(tf.range(tf.shape(cells)[0])[:, tf.newaxis], tf.shape(cells))
    spare = tf.scatter_nd(
        tf.stack([rows, cells], axis=-1),
        tf.cast(tf.sign(signed_codes), tf.float32),
        tf.stack([tf.shape(cells)[0], evidence_count + 1]),
    )  # [B, E + 1]
    return tf.ensure_shape(spare[:, :evidence_count], [signed_codes.shape[0], evidence_count])


def to_signed_codes(states: tf.Tensor, width: int) -> tf.Tensor:
    """Returns the signed codes int32 `[B, W]` of states `[B, E]` that hold at most W pieces, padded with 0."""
    known, cells = tf.math.top_k(tf.abs(states), width)
    signs = tf.gather(states, cells, batch_dims=1)
    return tf.where(known > 0, tf.cast(signs, tf.int32) * (cells + 1), 0)


def sparse_states(rows: SignedRows, evidence_count: int) -> scipy.sparse.csr_matrix:
    """Returns the states of V evidence sets as a sparse matrix, for scikit-learn.

    Returns:
        float32 `[V, E]`; zeros are not stored, columns ascend within a row.
    """
    cells = np.abs(rows.signed_codes.astype(np.int32)) - 1
    signs = np.sign(rows.signed_codes).astype(np.float32)
    states = scipy.sparse.csr_matrix((signs, cells, rows.offsets), shape=(len(rows.offsets) - 1, evidence_count))
    states.sort_indices()
    return states


def signed_codes(present: Iterable[str], absent: Iterable[str], vocabulary: Vocabulary) -> list[int]:
    """Returns the signed codes of evidence, those of present evidence first.

    Raises:
        InputError: a code is not in the vocabulary.
    """
    return [
        *(vocabulary.index(code) + 1 for code in present),
        *(-(vocabulary.index(code) + 1) for code in absent),
    ]


def from_codes(present: tf.Tensor, absent: tf.Tensor, lookup: Lookup, evidence_count: int) -> EncodedEvidence:
    """Encodes evidence codes.

    Args:
        present: string `[B, N]`, codes of evidence known to be present, padded with "".
        absent: string `[B, M]`, codes of evidence known to be absent, padded with "".
        lookup: from codes to state cells, int64 of the same shape, `UNKNOWN` for other strings.
        evidence_count: E, the number of state cells.

    Returns:
        The states; a code that is unknown, or both present and absent, leaves its cell 0 and is listed.
    """
    present_cells, absent_cells = lookup(present), lookup(absent)  # [B, N], [B, M]
    present_mask = _mask(present_cells, evidence_count)  # [B, E]
    absent_mask = _mask(absent_cells, evidence_count)
    codes = tf.concat([present, absent], axis=1)
    cells = tf.concat([present_cells, absent_cells], axis=1)
    known_cells = tf.maximum(present_cells, 0)
    conflicts = (present_cells != UNKNOWN) & (tf.gather(absent_mask, known_cells, batch_dims=1) > 0)
    return EncodedEvidence(
        states=present_mask - absent_mask,
        unknown_codes=_select((cells == UNKNOWN) & (codes != ""), codes),
        conflicting_codes=_select(conflicts, present),
    )


def _mask(cells: tf.Tensor, evidence_count: int) -> tf.Tensor:
    """Returns float32 `[B, E]`, 1 in each cell that stands in `cells` `[B, N]`, 0 elsewhere."""
    spare = tf.where(cells == UNKNOWN, tf.cast(evidence_count, cells.dtype), cells)
    rows = tf.broadcast_to(tf.range(tf.shape(cells, tf.int64)[0])[:, tf.newaxis], tf.shape(cells))
    empty = tf.zeros(tf.stack([tf.shape(cells)[0], evidence_count + 1]))
    full = tf.tensor_scatter_nd_max(empty, tf.stack([rows, spare], axis=-1), tf.ones(tf.shape(cells)))
    return full[:, :evidence_count]


def _select(chosen: tf.Tensor, codes: tf.Tensor) -> tf.Tensor:
    """Returns the chosen codes of each row, moved to the left and padded with ""."""
    return tf.ragged.boolean_mask(codes, chosen).to_tensor("")

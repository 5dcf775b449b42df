"""What follows from the known evidence is known, too, for every reader of a state."""

import numpy as np
import scipy.sparse
import tensorflow as tf

from schemas.evidence import Vocabulary

_AT_ONCE = 4_096  # rows of a sparse matrix that are closed together


class Closure:
    """Adds implied findings to states, or leaves them out, so that states with the same meaning are equal.

    Rules and questions read states with implied findings, networks and novelty those without. The memory, and all texts
    for people, hold what was stated. If no piece of evidence is related to another, states stay as they are.
    """

    def __init__(self, vocabulary: Vocabulary):
        implied = vocabulary.relations.implied
        count, index = len(vocabulary), vocabulary.index
        cells = sorted({index(code) for statuses in implied.values() for code, _ in statuses})  # C of them
        column = {cell: place for place, cell in enumerate(cells)}
        self._sources = np.array([index(code) for code, _ in implied], np.int32)  # [S]
        self._signs = np.array([1 if there else -1 for _, there in implied], np.float32)
        self._implied: np.ndarray = np.zeros((len(implied), 2 * len(cells)), np.float32)
        for row, statuses in enumerate(implied.values()):
            for code, there in statuses:
                self._implied[row, column[index(code)] + (0 if there else len(cells))] = 1
        # That a denial implies a presence is the only way in which two statuses can imply each other.
        self._one_way = self._implied.copy()
        self._one_way[self._signs < 0, : len(cells)] = 0
        self._columns = np.array([column.get(cell, len(cells)) for cell in range(count)], np.int32)  # [E], padded
        opposites = {
            tuple(sorted((index(source), index(code) + (count if there else 0))))
            for (source, is_present), statuses in implied.items()
            if is_present
            for code, there in statuses
        }
        self._contradictions = np.array(sorted(opposites), np.int32).T  # [2, N], pairs of literals

    def __call__(self, states: tf.Tensor) -> tf.Tensor:
        """Returns states `[B, E]` in {-1, 0, 1} with all that follows, float32 `[B, E]`.

        What a state says stays, even if something else that it says contradicts it.
        """
        if not len(self._sources):
            return states
        present, absent = self._following(states, self._implied)
        return tf.where(states != 0, states, tf.cast(present, states.dtype) - tf.cast(absent, states.dtype))

    def reduced(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the shortest states with the same meaning, without implied findings; `[B, E]`."""
        if not len(self._sources):
            return states
        closed = self(states)
        present, absent = self._following(closed, self._one_way)
        return tf.where(((closed > 0) & present) | ((closed < 0) & absent), tf.zeros_like(closed), closed)

    def contradicts(self, states: tf.Tensor) -> tf.Tensor:
        """Returns whether states `[B, E]` contradict themselves, bool `[B]`.

        As in `schemas.relations.Relations.contradictions`, it is what is present that contradicts the rest.
        """
        if not len(self._sources):
            return tf.zeros_like(states[:, 0], tf.bool)
        literals = tf.concat([states > 0, states < 0], axis=1)
        one, other = (tf.gather(literals, cells, axis=1) for cells in self._contradictions)  # [B, N]
        return tf.reduce_any(one & other, axis=1)

    def rows(self, states: scipy.sparse.csr_matrix, reduced: bool = False) -> scipy.sparse.csr_matrix:
        """Returns the same as a call, or as `reduced`, for many states as a sparse matrix `[V, E]`."""
        if not len(self._sources):
            return states
        change = self.reduced if reduced else self.__call__
        parts = (states[first : first + _AT_ONCE] for first in range(0, states.shape[0], _AT_ONCE))
        changed = [change(tf.constant(part.toarray(), tf.float32)).numpy() for part in parts]
        return scipy.sparse.vstack(list(map(scipy.sparse.csr_matrix, changed)), format="csr")

    def _following(self, states: tf.Tensor, implied: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns what follows as present, and as absent, from other cells, bool `[B, E]` both."""
        literals = tf.nn.relu(tf.gather(states, self._sources, axis=1) * self._signs)  # [B, S]
        following = tf.cast(tf.matmul(literals, tf.constant(implied)) > 0.5, tf.float32)  # [B, 2 C]
        present, absent = tf.split(following, 2, axis=1)
        # As one number, 0 to 3, since gathering takes most time; no equality, as phones round.
        both = tf.gather(tf.pad(present + 2 * absent, [[0, 0], [0, 1]]), self._columns, axis=1)  # [B, E]
        return (both > 0.5) & (tf.abs(both - 2) > 0.5), both > 1.5

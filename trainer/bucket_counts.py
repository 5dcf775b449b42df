"""How many transitions of each priority bucket stand where in the memory, as a tree of counts, in graph.

A node of the lowest level counts the transitions of `FAN_OUT` slots, a node of the level above those of as many nodes,
and so on. To find the r-th transition of a bucket, or to move one to another bucket, touches one node of each level, so
that the cost grows with the logarithm of the capacity. All numbers are whole: they never drift.
"""

import math

import tensorflow as tf

FAN_OUT = 128


class BucketCounts(tf.Module):
    """Counts of K buckets over the blocks of `FAN_OUT` slots of a memory."""

    def __init__(self, capacity: int, buckets: int):
        """Makes the counts of an empty memory with `capacity` slots."""
        super().__init__(name="bucket_counts")
        self._levels = []  # lowest first; int32 [K, nodes of the level above, FAN_OUT]
        nodes = math.ceil(capacity / FAN_OUT)
        while True:
            parents = math.ceil(nodes / FAN_OUT)
            self._levels.append(tf.Variable(tf.zeros([buckets, parents, FAN_OUT], tf.int32), name="level"))
            if parents == 1:
                return
            nodes = parents

    @property
    def totals(self) -> tf.Tensor:
        """int32 `[K]`: transitions in each bucket."""
        return tf.reduce_sum(self._levels[-1], axis=[1, 2])

    def add(self, slots: tf.Tensor, buckets: tf.Tensor, amounts: tf.Tensor) -> None:
        """Adds `amounts` int32 `[B]` to the counts of `buckets` int32 `[B]` in the blocks of `slots` int64 `[B]`."""
        nodes = tf.cast(slots, tf.int32) // FAN_OUT
        for level in self._levels:
            parents, places = nodes // FAN_OUT, nodes % FAN_OUT
            level.scatter_nd_add(tf.stack([buckets, parents, places], axis=-1), amounts)
            nodes = parents

    def find(self, buckets: tf.Tensor, ranks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Finds the block in which a transition of a bucket stands.

        Args:
            buckets: int32 `[B]`.
            ranks: int32 `[B]`, how many transitions of the bucket stand before the one that is wanted; below its total.

        Returns:
            The number of the block, and the rank within it, int32 `[B]` both.
        """
        nodes = tf.zeros_like(buckets)
        for level in reversed(self._levels):
            # XLA, by which the memory has this compiled, gathers from what is read, in place; not from a variable.
            counts = tf.gather_nd(level.read_value(), tf.stack([buckets, nodes], axis=-1))  # [B, FAN_OUT]
            places, ranks = place_of_rank(counts, ranks)
            nodes = nodes * FAN_OUT + places
        return nodes, ranks


def place_of_rank(counts: tf.Tensor, ranks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds where the running sum of counts passes a rank.

    Args:
        counts: int32 `[B, N]`, 0 or more.
        ranks: int32 `[B]`, 0 or more, below the sum of the row.

    Returns:
        The place in the row, and the rank less what stands before that place, int32 `[B]` both.
    """
    sums = tf.cumsum(counts, axis=1)
    before = sums <= ranks[:, tf.newaxis]
    places = tf.reduce_sum(tf.cast(before, tf.int32), axis=1)
    # Of the sums up to the rank, the last one is the largest.
    return places, ranks - tf.reduce_max(tf.where(before, sums, 0), axis=1)

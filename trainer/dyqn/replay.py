"""The agent's memory: four priority buckets, in graph, states as signed codes (paper, section "Memory").

A transition's priority is set when it is stored. Afterwards it only decays, by a factor each time the transition is
sampled, so that it sinks into buckets that are sampled less often. There is no importance weighting. When the memory is
full, the oldest transition is dropped. The cost of a step grows only with the logarithm of the memory's capacity.
"""

import math

import numpy as np
import tensorflow as tf

from schemas.triage import NUM_DECISIONS
from trainer.config import MemoryConfig
from trainer.dyqn.targets import Transition


class BucketMemory(tf.Module):
    """Transitions in a ring of `memory_capacity` slots, each in the bucket of its priority.

    Sampling first chooses a bucket with the configured probabilities, renormalised over the buckets that are not empty,
    then a transition in it, uniformly and with replacement.
    """

    def __init__(self, evidence_count: int, known_limit: int, config: MemoryConfig):
        """Makes an empty memory.

        Args:
            evidence_count: E, the number of codes.
            known_limit: W, the largest number of pieces of evidence in a stored state.
            config: capacity, buckets and decay.
        """
        super().__init__(name="memory")
        capacity = config.memory_capacity
        self._capacity = capacity
        self._decay = config.priority_decay
        self._thresholds = tf.constant(config.bucket_thresholds, tf.float32)  # [K - 1]
        self._probabilities = tf.constant(config.bucket_probabilities, tf.float64)  # [K]
        self._counts = BucketCounts(capacity, len(config.bucket_probabilities))
        signed_code = tf.int16 if evidence_count <= np.iinfo(np.int16).max else tf.int32
        self.s_tm1 = tf.Variable(tf.zeros([capacity, known_limit], signed_code), name="s_tm1")
        self.s_t = tf.Variable(tf.zeros([capacity, known_limit], signed_code), name="s_t")
        self.a_tm1 = tf.Variable(tf.zeros([capacity], tf.int32), name="a_tm1")
        self.r_t = tf.Variable(tf.zeros([capacity, NUM_DECISIONS]), name="r_t")
        self.asked = tf.Variable(tf.zeros([capacity], tf.bool), name="asked")
        self.priorities = tf.Variable(tf.zeros([capacity]), name="priorities")
        self.stored = tf.Variable(0, dtype=tf.int64, name="stored")  # number of transitions ever stored
        # Compiled, as so many small operations take more than twice as long one by one.
        self._slots_at = tf.function(self._find, jit_compile=True, autograph=False)

    @property
    def known_limit(self) -> int:
        """W, the largest number of pieces of evidence in a stored state."""
        return int(self.s_tm1.shape[1])

    @property
    def size(self) -> tf.Tensor:
        """int64 scalar: number of transitions held."""
        return tf.minimum(self.stored, self._capacity)

    @property
    def bucket_sizes(self) -> tf.Tensor:
        """int32 `[K]`: number of transitions in each bucket, by rising priority."""
        return self._counts.totals

    def add(self, transition: Transition, priorities: tf.Tensor) -> None:
        """Stores a batch of transitions with priorities `[B]`; B is at most the capacity.

        Their states are signed codes `[B, W]` (`trainer.vignettes.state`).
        """
        count = tf.shape(priorities, tf.int64)[0]
        slots = (self.stored + tf.range(count)) % self._capacity  # [B]
        rows = slots[:, tf.newaxis]
        self._counts.add(slots, self._buckets(slots), -tf.cast(slots < self.size, tf.int32))
        self.s_tm1.scatter_nd_update(rows, tf.cast(transition.s_tm1, self.s_tm1.dtype))
        self.s_t.scatter_nd_update(rows, tf.cast(transition.s_t, self.s_t.dtype))
        self.a_tm1.scatter_nd_update(rows, transition.a_tm1)
        self.r_t.scatter_nd_update(rows, transition.r_t)
        self.asked.scatter_nd_update(rows, transition.asked)
        self.priorities.scatter_nd_update(rows, priorities)
        self._counts.add(slots, self._buckets(slots), tf.ones_like(slots, tf.int32))
        self.stored.assign_add(count)

    def sample(self, batch_size: int, generator: tf.random.Generator) -> Transition:
        """Returns `batch_size` transitions, and decays the priority of each, once for every time it was drawn.

        The states are signed codes `[batch_size, W]`. The memory must hold at least one transition.
        """
        slots = self._draw(batch_size, generator)
        self._decay_priorities(slots)
        return Transition(
            s_tm1=tf.cast(tf.gather(self.s_tm1, slots), tf.int32),
            a_tm1=tf.gather(self.a_tm1, slots),
            r_t=tf.gather(self.r_t, slots),
            s_t=tf.cast(tf.gather(self.s_t, slots), tf.int32),
            asked=tf.gather(self.asked, slots),
        )

    def _buckets(self, slots: tf.Tensor) -> tf.Tensor:
        """Returns the bucket of the priority in each slot, int32, in the shape of `slots`."""
        priorities = tf.gather(self.priorities, slots)[..., tf.newaxis]
        return tf.reduce_sum(tf.cast(priorities >= self._thresholds, tf.int32), axis=-1)

    def _draw(self, batch_size: int, generator: tf.random.Generator) -> tf.Tensor:
        """Returns the slots drawn, int64 `[batch_size]`."""
        return self._slots_at(generator.uniform([batch_size], dtype=tf.float64))

    def _find(self, numbers: tf.Tensor) -> tf.Tensor:
        """Returns the slots, int64 `[B]`, that are drawn with uniform `numbers` `[B]` in [0, 1)."""
        held = tf.cast(self.bucket_sizes, tf.float64)  # [K]
        share = tf.where(held > 0, self._probabilities, 0.0)
        # If every bucket that is not empty has probability 0, all transitions are equally likely.
        share = tf.where(tf.reduce_sum(share) > 0, share, held)
        cumulative = tf.cumsum(share)  # [K]
        points = numbers * cumulative[-1]  # [B]
        # One number selects the bucket and, by its position within the bucket's share, the transition. Rounding must
        # lead neither past the last bucket that can be drawn nor past the last transition in it.
        last = tf.reduce_max(tf.where(share > 0, tf.range(len(self._probabilities)), 0))
        buckets = tf.minimum(tf.searchsorted(cumulative, points, side="right"), last)
        within = (points - tf.gather(cumulative - share, buckets)) / tf.gather(share, buckets)  # [B] in [0, 1)
        sizes = tf.gather(held, buckets)
        ranks = tf.cast(tf.clip_by_value(tf.floor(within * sizes), 0.0, sizes - 1.0), tf.int32)
        blocks, ranks = self._counts.find(buckets, ranks)
        slots = tf.cast(blocks, tf.int64)[:, tf.newaxis] * FAN_OUT + tf.range(FAN_OUT, dtype=tf.int64)
        of_bucket = self._buckets(tf.minimum(slots, self._capacity - 1)) == buckets[:, tf.newaxis]
        places, _ = place_of_rank(tf.cast(of_bucket & (slots < self.size), tf.int32), ranks)
        return slots[:, 0] + tf.cast(places, tf.int64)

    def _decay_priorities(self, slots: tf.Tensor) -> None:
        """Decays the priorities of drawn transitions `[B]`; one drawn twice decays twice."""
        slots = tf.sort(slots)
        before = self._buckets(slots)
        self.priorities.scatter_mul(tf.IndexedSlices(tf.fill(tf.shape(slots), self._decay), slots))
        once = tf.cast(tf.concat([[True], slots[1:] != slots[:-1]], axis=0), tf.int32)  # it changes buckets only once
        self._counts.add(slots, before, -once)
        self._counts.add(slots, self._buckets(slots), once)


FAN_OUT = 128


class BucketCounts(tf.Module):
    """The number of transitions of each of K buckets, in each block of `FAN_OUT` slots of a memory."""

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
        """Finds the block that holds a transition of a bucket.

        Args:
            buckets: int32 `[B]`.
            ranks: int32 `[B]`, the number of transitions of the bucket before the wanted one; below the bucket's total.

        Returns:
            The number of the block, and the rank within it, int32 `[B]` both.
        """
        nodes = tf.zeros_like(buckets)
        for level in reversed(self._levels):
            # XLA, which compiles this, gathers in place from a value that was read, but not from a variable.
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
        The place in the row, and the rank minus the sum of the counts before it, int32 `[B]` both.
    """
    sums = tf.cumsum(counts, axis=1)
    before = sums <= ranks[:, tf.newaxis]
    places = tf.reduce_sum(tf.cast(before, tf.int32), axis=1)
    # Sums rise along the row, so the largest of those up to the rank is the last one.
    return places, ranks - tf.reduce_max(tf.where(before, sums, 0), axis=1)

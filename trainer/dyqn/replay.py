"""The agent's memory: four priority buckets, in graph, states as signed codes (paper, section "Memory").

A transition's priority is set when it is stored. Afterwards it only decays, by a factor each time the transition is
sampled, so that it sinks into buckets that are sampled less often. There is no importance weighting. When the memory is
full, the oldest transition is dropped. With a single bucket, the memory is an ordinary one, from which all transitions
are drawn equally often.
"""

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
        signed_code = tf.int16 if evidence_count <= np.iinfo(np.int16).max else tf.int32
        self.s_tm1 = tf.Variable(tf.zeros([capacity, known_limit], signed_code), name="s_tm1")
        self.s_t = tf.Variable(tf.zeros([capacity, known_limit], signed_code), name="s_t")
        self.a_tm1 = tf.Variable(tf.zeros([capacity], tf.int32), name="a_tm1")
        self.r_t = tf.Variable(tf.zeros([capacity, NUM_DECISIONS]), name="r_t")
        self.asked = tf.Variable(tf.zeros([capacity], tf.bool), name="asked")
        self.priorities = tf.Variable(tf.zeros([capacity]), name="priorities")
        self.stored = tf.Variable(0, dtype=tf.int64, name="stored")  # number of transitions ever stored
        self._counts = tf.function(self._count, jit_compile=True, autograph=False)  # in a quarter of the time

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
        return self._counts()[:, -1]

    def add(self, transition: Transition, priorities: tf.Tensor) -> None:
        """Stores a batch of transitions with priorities `[B]`; B is at most the capacity.

        Their states are signed codes `[B, W]` (`trainer.data.state`).
        """
        count = tf.shape(priorities, tf.int64)[0]
        slots = (self.stored + tf.range(count)) % self._capacity  # [B]
        rows = slots[:, tf.newaxis]
        self.s_tm1.scatter_nd_update(rows, tf.cast(transition.s_tm1, self.s_tm1.dtype))
        self.s_t.scatter_nd_update(rows, tf.cast(transition.s_t, self.s_t.dtype))
        self.a_tm1.scatter_nd_update(rows, transition.a_tm1)
        self.r_t.scatter_nd_update(rows, transition.r_t)
        self.asked.scatter_nd_update(rows, transition.asked)
        self.priorities.scatter_nd_update(rows, priorities)
        self.stored.assign_add(count)

    def sample(self, batch_size: int, generator: tf.random.Generator) -> Transition:
        """Returns `batch_size` transitions, and decays the priority of each, once for every time it was drawn.

        The states are signed codes `[batch_size, W]`. The memory must hold at least one transition.
        """
        numbers = generator.uniform([batch_size], dtype=tf.float64)
        if len(self._probabilities) == 1:
            slots = _place(numbers, tf.cast(self.size, tf.float64))
        else:
            slots = self._draw(numbers)
            # In order, so that the priority of one drawn twice, which decays twice, is always rounded alike.
            decay = tf.fill([batch_size], self._decay)
            self.priorities.scatter_mul(tf.IndexedSlices(decay, tf.sort(slots)))
        return Transition(
            s_tm1=tf.cast(tf.gather(self.s_tm1, slots), tf.int32),
            a_tm1=tf.gather(self.a_tm1, slots),
            r_t=tf.gather(self.r_t, slots),
            s_t=tf.cast(tf.gather(self.s_t, slots), tf.int32),
            asked=tf.gather(self.asked, slots),
        )

    def _count(self) -> tf.Tensor:
        """Returns how many transitions of each bucket are in the slots up to each one, int32 `[K, C]`."""
        buckets = tf.searchsorted(self._thresholds, self.priorities, side="right")  # [C]
        held = tf.range(self._capacity, dtype=tf.int64) < self.size
        members = (buckets == tf.range(len(self._probabilities))[:, tf.newaxis]) & held
        return tf.cumsum(tf.cast(members, tf.int32), axis=1)

    def _draw(self, numbers: tf.Tensor) -> tf.Tensor:
        """Returns the slots, int64 `[B]`, that are drawn with uniform `numbers` `[B]` in [0, 1)."""
        counts = self._counts()  # [K, C]
        held = tf.cast(counts[:, -1], tf.float64)  # [K]
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
        ranks = tf.cast(_place(within, tf.gather(held, buckets)), tf.int32)
        # In each bucket, the first slot with more transitions up to it than the rank.
        places = tf.searchsorted(counts, tf.tile(ranks[tf.newaxis], [len(self._probabilities), 1]), side="right")
        return tf.cast(tf.gather(tf.transpose(places), buckets, batch_dims=1), tf.int64)


def _place(numbers: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Returns the places int64, from 0 up to below `size`, of uniform numbers in [0, 1)."""
    return tf.cast(tf.clip_by_value(tf.floor(numbers * size), 0.0, size - 1.0), tf.int64)

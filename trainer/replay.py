"""The agent's memory: four priority buckets, in graph, states as signed codes (paper, section "Memory").

A memory's priority is set when it is stored and only decays afterwards, by a factor each time the memory is sampled,
so that it sinks into buckets that are sampled more rarely. There is no importance weighting. When the memory is full,
the oldest transition goes.
"""

import tensorflow as tf

from trainer.config import MemoryConfig
from trainer.targets import Transition


class BucketMemory(tf.Module):
    """Transitions in a ring of `memory_capacity` slots, each in the bucket of its priority.

    A sample first chooses a bucket with the configured probabilities, renormalised over the buckets that hold
    anything, then a transition in it uniformly, with replacement.
    """

    def __init__(self, known_limit: int, decisions: int, config: MemoryConfig):
        """Makes an empty memory.

        Args:
            known_limit: W, the most pieces of evidence that a stored state can hold.
            decisions: width of the reward.
            config: capacity, buckets and decay.
        """
        super().__init__(name="memory")
        capacity = config.memory_capacity
        self._capacity = capacity
        self._decay = config.priority_decay
        self._thresholds = tf.constant(config.bucket_thresholds, tf.float32)  # [K - 1]
        self._probabilities = tf.constant(config.bucket_probabilities, tf.float64)  # [K]
        self.s_tm1 = tf.Variable(tf.zeros([capacity, known_limit], tf.int32), name="s_tm1")  # signed codes
        self.s_t = tf.Variable(tf.zeros([capacity, known_limit], tf.int32), name="s_t")
        self.a_tm1 = tf.Variable(tf.zeros([capacity], tf.int32), name="a_tm1")
        self.r_t = tf.Variable(tf.zeros([capacity, decisions]), name="r_t")
        self.priorities = tf.Variable(tf.zeros([capacity]), name="priorities")
        self.stored = tf.Variable(0, dtype=tf.int64, name="stored")  # transitions ever stored

    @property
    def size(self) -> tf.Tensor:
        """int64 scalar: number of transitions held."""
        return tf.minimum(self.stored, self._capacity)

    def add(self, transition: Transition, priorities: tf.Tensor) -> None:
        """Stores a batch of transitions, states as signed codes `[B, W]` (`trainer.state`), with priorities `[B]`.

        B is at most the capacity.
        """
        count = tf.shape(priorities, tf.int64)[0]
        slots = ((self.stored + tf.range(count)) % self._capacity)[:, tf.newaxis]  # [B, 1]
        self.s_tm1.scatter_nd_update(slots, transition.s_tm1)
        self.s_t.scatter_nd_update(slots, transition.s_t)
        self.a_tm1.scatter_nd_update(slots, transition.a_tm1)
        self.r_t.scatter_nd_update(slots, transition.r_t)
        self.priorities.scatter_nd_update(slots, priorities)
        self.stored.assign_add(count)

    def buckets(self) -> tf.Tensor:
        """Returns int32 `[size]`: the bucket of each held transition, 0 for the lowest priorities."""
        priorities = self.priorities[: self.size]
        return tf.searchsorted(self._thresholds, priorities, side="right")

    def sample(self, batch_size: int, generator: tf.random.Generator) -> Transition:
        """Returns `batch_size` transitions and decays the priority of each, once for every time it was drawn.

        The states are signed codes `[batch_size, W]`. The memory holds at least one transition.
        """
        slots = self._draw(batch_size, generator)
        decay = tf.fill([batch_size], self._decay)
        self.priorities.scatter_mul(tf.IndexedSlices(decay, slots))  # a slot drawn twice decays twice
        return Transition(
            s_tm1=tf.gather(self.s_tm1, slots),
            a_tm1=tf.gather(self.a_tm1, slots),
            r_t=tf.gather(self.r_t, slots),
            s_t=tf.gather(self.s_t, slots),
        )

    def _draw(self, batch_size: int, generator: tf.random.Generator) -> tf.Tensor:
        """Returns int64 `[batch_size]`, the slots drawn."""
        buckets = self.buckets()
        held = tf.math.bincount(buckets, minlength=len(self._probabilities), dtype=tf.float64)  # [K]
        share = tf.math.divide_no_nan(self._probabilities, held)  # of one transition in the bucket, before scaling
        # Where every bucket that holds something has probability 0, all held transitions are alike.
        share = tf.cond(tf.reduce_sum(share) > 0, lambda: share, lambda: tf.ones_like(share))
        cumulative = tf.cumsum(tf.gather(share, buckets))  # [size], float64 for the sake of large memories
        points = generator.uniform([batch_size], dtype=tf.float64) * cumulative[-1]
        slots = tf.searchsorted(cumulative, points, side="right", out_type=tf.int64)
        return tf.minimum(slots, self.size - 1)

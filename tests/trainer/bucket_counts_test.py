import numpy as np
import pytest
import tensorflow as tf

from trainer.bucket_counts import FAN_OUT, BucketCounts, place_of_rank

FEW, MANY = 300, 40_000  # 3 blocks, which one node counts; 313, which need a second level


def _ints(values):
    return tf.constant(np.asarray(values), tf.int32)


def _filled(capacity, seed=0):
    """Counts of 3 buckets with about 5 slots in 6 taken, and the bucket of each slot, -1 for none."""
    buckets = np.random.default_rng(seed).choice([-1, 0, 1, 1, 1, 2], capacity)
    counts, slots = BucketCounts(capacity, 3), np.flatnonzero(buckets >= 0)
    counts.add(tf.constant(slots, tf.int64), _ints(buckets[slots]), _ints(np.ones_like(slots)))
    return counts, buckets


@pytest.mark.parametrize("capacity", [1, FAN_OUT, FAN_OUT + 1, FEW, MANY])
def test_totals_count_each_bucket(capacity):
    counts, buckets = _filled(capacity)
    assert counts.totals.numpy().tolist() == [np.sum(buckets == bucket) for bucket in range(3)]


@pytest.mark.parametrize("capacity", [FEW, MANY])
def test_finds_the_block_of_every_transition_and_its_rank_there(capacity):
    counts, buckets = _filled(capacity)
    for bucket in range(3):
        slots = np.flatnonzero(buckets == bucket)
        blocks, ranks = counts.find(_ints(np.full(len(slots), bucket)), _ints(np.arange(len(slots))))
        np.testing.assert_array_equal(blocks, slots // FAN_OUT)
        first = np.searchsorted(slots, slots // FAN_OUT * FAN_OUT)  # of the bucket, in the block
        np.testing.assert_array_equal(ranks, np.arange(len(slots)) - first)


def test_a_transition_that_moves_to_another_bucket_is_found_there():
    counts, buckets = _filled(MANY)
    slot = int(np.flatnonzero(buckets == 0)[-1])
    for bucket, amount in ((0, -1), (2, 1)):
        counts.add(tf.constant([slot], tf.int64), _ints([bucket]), _ints([amount]))
    buckets[slot] = 2
    assert counts.totals.numpy().tolist() == [np.sum(buckets == bucket) for bucket in range(3)]
    place = int(np.sum(buckets[:slot] == 2))
    assert int(counts.find(_ints([2]), _ints([place]))[0][0]) == slot // FAN_OUT


def test_place_of_rank_passes_over_what_counts_nothing():
    places, ranks = place_of_rank(_ints([[0, 2, 0, 3]] * 5), _ints(range(5)))
    assert places.numpy().tolist() == [1, 1, 3, 3, 3]
    assert ranks.numpy().tolist() == [0, 1, 0, 1, 2]

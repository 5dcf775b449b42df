import dataclasses

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from trainer.config import MemoryConfig
from trainer.dyqn.replay import BucketMemory
from trainer.dyqn.targets import Transition

EVIDENCE_COUNT = 6
CONFIG = MemoryConfig(memory_capacity=8, bucket_thresholds=(0.1, 0.2, 0.4))


def _transition(number):
    """A transition that tells its number by code and action."""
    here, following = number % EVIDENCE_COUNT + 1, (number + 1) % EVIDENCE_COUNT + 1
    return Transition(
        tf.constant([[-here, 0, 0]]), tf.constant([number]), tf.constant([[0.0, 1.0, 0.5, number / 10]]),
        tf.constant([[-here, following, 0]]), tf.constant([number % 2 == 0]),
    )  # fmt: skip


def _memory(priorities, config=CONFIG):
    memory = BucketMemory(EVIDENCE_COUNT, 3, config)
    for number, priority in enumerate(priorities):
        memory.add(_transition(number), tf.constant([priority]))
    return memory


def _generator(seed=0):
    return tf.random.Generator.from_seed(seed, alg="philox")


def test_returns_what_was_stored():
    memory = _memory([0.5] * 5)
    batch = memory.sample(40, _generator())
    assert set(batch.a_tm1.numpy().tolist()) == set(range(5))
    for row, number in enumerate(batch.a_tm1.numpy()):
        stored = _transition(int(number))
        for column, expected in zip(batch, stored, strict=True):
            np.testing.assert_array_equal(column[row], expected[0])


def test_bucket_is_decided_by_the_thresholds_each_of_which_belongs_to_the_upper_bucket():
    memory = _memory([0.0, 0.0999, 0.1, 0.25, 0.4, 1.0])
    assert memory.bucket_sizes.numpy().tolist() == [2, 1, 1, 2]


def test_buckets_are_sampled_with_their_probabilities_whatever_their_sizes():
    # Bucket 0 holds three transitions, the others one each; a plain draw by weight would favour bucket 0.
    memory = _memory([0.05, 0.05, 0.05, 0.15, 0.3, 0.9], dataclasses.replace(CONFIG, priority_decay=1.0))
    drawn = np.bincount(memory.sample(20_000, _generator(1)).a_tm1.numpy(), minlength=6)
    expected = 20_000 * np.array([0.01 / 3, 0.01 / 3, 0.01 / 3, 0.04, 0.15, 0.80])
    assert scipy.stats.chisquare(drawn, expected).pvalue > 1e-3


def test_a_bucket_of_probability_zero_is_drawn_from_only_when_nothing_else_is_held():
    config = dataclasses.replace(CONFIG, bucket_probabilities=(0.0, 0.05, 0.15, 0.80))
    assert set(_memory([0.05, 0.9], config).sample(200, _generator()).a_tm1.numpy()) == {1}
    assert set(_memory([0.05], config).sample(5, _generator()).a_tm1.numpy()) == {0}


def test_priority_decays_once_for_every_time_a_transition_is_drawn():
    memory = _memory([0.5, 0.9], dataclasses.replace(CONFIG, priority_decay=0.9))
    drawn = np.bincount(memory.sample(7, _generator(4)).a_tm1.numpy(), minlength=2)
    assert drawn.sum() == 7
    np.testing.assert_allclose(memory.priorities.numpy()[:2], [0.5, 0.9] * 0.9**drawn, rtol=1e-6)


def test_a_transition_drawn_many_times_at_once_moves_once():
    memory = _memory([0.5, 0.05], dataclasses.replace(CONFIG, priority_decay=0.9, bucket_probabilities=(0, 0, 0, 1)))
    memory.sample(12, _generator())  # .5 * .9^12 = .14
    assert memory.bucket_sizes.numpy().tolist() == [1, 1, 0, 0]


def test_bucket_sizes_stay_true_while_transitions_come_go_and_decay():
    config = dataclasses.replace(CONFIG, memory_capacity=300, priority_decay=0.95)
    memory, generator, priorities = _memory([], config), _generator(), np.random.default_rng(0)
    for number in range(60):
        rows = [_transition(number) for _ in range(11)]
        batch = Transition(*(tf.concat(column, axis=0) for column in zip(*rows, strict=True)))
        memory.add(batch, tf.constant(priorities.uniform(0, 0.6, 11), tf.float32))
        memory.sample(40, generator)
        held = memory.priorities.numpy()[: int(memory.size)]
        buckets = np.searchsorted(np.float32(config.bucket_thresholds), held, side="right")
        assert memory.bucket_sizes.numpy().tolist() == np.bincount(buckets, minlength=4).tolist()


def test_every_transition_of_a_large_memory_is_drawn_equally_often_within_its_bucket():
    config = dataclasses.replace(CONFIG, memory_capacity=300, priority_decay=1.0, bucket_thresholds=(0.1, 0.2, 0.4))
    memory = _memory([], config)
    states, priorities = tf.zeros([290, 3], tf.int32), np.resize([0.3, 0.3, 0.9], 290)
    batch = Transition(states, tf.range(290), tf.zeros([290, 4]), states, tf.ones([290], tf.bool))
    memory.add(batch, tf.constant(priorities, tf.float32))
    drawn = np.bincount(memory.sample(60_000, _generator(3)).a_tm1.numpy(), minlength=290)
    assert len(drawn) == 290, "a slot that holds nothing was drawn"
    upper = priorities == 0.9
    expected = 60_000 * np.where(upper, 0.80 / upper.sum(), 0.15 / (~upper).sum()) / 0.95
    assert scipy.stats.chisquare(drawn, expected).pvalue > 1e-3


def test_the_oldest_transition_goes_when_the_memory_is_full():
    memory = _memory([0.5] * 11)  # capacity 8: 0, 1 and 2 are gone
    assert int(memory.size) == 8
    assert set(memory.sample(300, _generator()).a_tm1.numpy().tolist()) == set(range(3, 11))


@pytest.mark.parametrize("evidence_count", [32_767, 32_768])
def test_the_last_code_of_a_large_vocabulary_keeps_its_place_and_sign(evidence_count):
    memory = BucketMemory(evidence_count, 2, CONFIG)
    codes = tf.constant([[evidence_count, 0]])
    memory.add(Transition(-codes, tf.constant([0]), tf.zeros([1, 4]), codes, tf.constant([True])), tf.ones([1]))
    batch = memory.sample(1, _generator())
    np.testing.assert_array_equal(batch.s_tm1, [[-evidence_count, 0]])
    np.testing.assert_array_equal(batch.s_t, [[evidence_count, 0]])


def test_a_million_transitions_take_less_than_300_megabytes():
    config = dataclasses.replace(CONFIG, memory_capacity=1_000_000)
    memory = BucketMemory(20_000, 25, config)  # 25: all that 23 questions can reveal
    assert sum(variable.dtype.size * np.prod(variable.shape) for variable in memory.variables) < 300e6

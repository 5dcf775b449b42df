"""Checkpoint files: the list of the manager against what stands on disk, and damage."""

import pytest
import tensorflow as tf

from schemas.errors import InputError
from trainer.training.job import checkpoint_step, existing_checkpoints, restore


@pytest.fixture
def manager(tmp_path):
    """Of checkpoints of steps 10 and 20, in which a number is the step."""
    number = tf.Variable(0, dtype=tf.int64)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(number=number), str(tmp_path), max_to_keep=2)
    for step in (10, 20):
        number.assign(step)
        manager.save(checkpoint_number=step)
    return manager


def test_only_checkpoints_whose_files_are_there_count(manager, tmp_path):
    assert [checkpoint_step(path) for path in existing_checkpoints(manager)] == [10, 20]
    (tmp_path / "ckpt-20.index").unlink()
    assert [checkpoint_step(path) for path in existing_checkpoints(manager)] == [10]


def test_a_checkpoint_comes_back_and_a_damaged_one_is_named(manager, tmp_path):
    number = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(number=number)
    restore(checkpoint, manager.checkpoints[0]).assert_existing_objects_matched()
    assert int(number) == 10
    (tmp_path / "ckpt-20.index").write_text("garbage")
    with pytest.raises(InputError, match=r"ckpt-20: a damaged checkpoint \(.*put its files back") as error:
        restore(checkpoint, manager.checkpoints[1])
    assert "\n" not in str(error.value)

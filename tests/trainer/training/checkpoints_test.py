"""One worker's checkpoints; several workers' are in `workers_test.py`."""

import pytest
import tensorflow as tf

from schemas.errors import InputError
from trainer.dyqn.workers import ALONE
from trainer.training.checkpoints import Checkpoints
from trainer.training.job import JobDirectory


@pytest.fixture
def value():
    return tf.Variable(0.0)


def _checkpoints(path, value):
    return Checkpoints(JobDirectory(path), tf.train.Checkpoint(value=value), ALONE)


def _saved(path, value, steps):
    checkpoints = _checkpoints(path, value)
    for step in steps:
        value.assign(step)
        checkpoints.save(step)


def _damage(path, step):
    (path / "checkpoints" / f"ckpt-{step}.index").write_text("garbage")


def test_a_run_without_checkpoints_starts_from_the_beginning(tmp_path, value):
    assert _checkpoints(tmp_path, value).restore(pytest.fail) is None


def test_the_newest_checkpoint_comes_back(tmp_path, value):
    _saved(tmp_path, value, (5, 7, 11, 12))
    value.assign(0.0)
    assert _checkpoints(tmp_path, value).restore(pytest.fail) == str(tmp_path / "checkpoints" / "ckpt-12")
    assert float(value) == 12.0
    assert sorted(path.stem for path in (tmp_path / "checkpoints").glob("*.index")) == ["ckpt-11", "ckpt-12", "ckpt-7"]


@pytest.mark.parametrize("damage", [lambda index: index.write_text("garbage"), lambda index: index.unlink()])
def test_a_damaged_one_is_passed_over_and_one_that_is_gone_too(tmp_path, value, damage):
    _saved(tmp_path, value, (5, 7))
    damage(tmp_path / "checkpoints" / "ckpt-7.index")
    warnings = []
    _checkpoints(tmp_path, value).restore(warnings.append)
    assert float(value) == 5.0
    assert all("ckpt-7" in warning for warning in warnings)


def test_where_all_are_damaged_the_oldest_is_named(tmp_path, value):
    _saved(tmp_path, value, (5, 7))
    for step in (5, 7):
        _damage(tmp_path, step)
    with pytest.raises(InputError, match="ckpt-5: "):
        _checkpoints(tmp_path, value).restore(lambda text: None)


def test_a_checkpoint_that_cannot_be_written_is_an_input_error(tmp_path, value):
    checkpoints = _checkpoints(tmp_path, value)
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    with pytest.raises(InputError, match=f"{tmp_path}: cannot write"):
        checkpoints.save(1)

"""Finds and reads the files of TensorFlow checkpoints."""

import pathlib
from typing import Any

import tensorflow as tf

from schemas.errors import InputError, first_line


def existing_checkpoints(manager: tf.train.CheckpointManager) -> list[str]:
    """Returns the checkpoints whose files exist, oldest first; the manager itself trusts its list."""
    return [path for path in manager.checkpoints if pathlib.Path(f"{path}.index").exists()]


def checkpoint_step(path: str) -> int:
    """Returns the step at which a checkpoint was written."""
    return int(path.rsplit("-", 1)[1])


def restore(checkpoint: tf.train.Checkpoint, path: str) -> Any:
    """Restores `checkpoint` from `path`; returns TensorFlow's status, to assert what must have matched.

    Raises:
        InputError: the files are damaged or missing.
    """
    try:
        return checkpoint.restore(path)
    # Depending on the damage, TensorFlow's readers raise different errors.
    except (tf.errors.OpError, IndexError, ValueError, RuntimeError) as error:
        advice = "put its files back, or delete them to use an older one"
        raise InputError(f"{path}: a damaged checkpoint ({first_line(error)}): {advice}") from error


def checkpoint_path(paths: list[str], step: int | None, job_dir: pathlib.Path) -> str:
    """Returns the checkpoint of a step, the newest one without a step.

    Raises:
        InputError: there is none.
    """
    steps = {checkpoint_step(path): path for path in paths}
    if not steps:
        raise InputError(f"{job_dir}: no checkpoint yet: train for longer, or lower --checkpoint-interval")
    if step is not None and step not in steps:
        raise InputError(f"{job_dir}: no checkpoint of step {step}; there are {', '.join(map(str, sorted(steps)))}")
    return steps[max(steps) if step is None else step]

"""Finds and reads the files of TensorFlow checkpoints, and says what is left of them where writing failed."""

import pathlib
from typing import Any

import tensorflow as tf

from schemas.errors import InputError, first_line

CHECKPOINTS = "checkpoints"
"""Folder of the checkpoints in a job directory."""


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


def unwritable(job_dir: pathlib.Path, error: OSError | tf.errors.OpError) -> InputError:
    """Returns the error to raise where writing in a job directory failed."""
    if job_dir.is_file():
        return InputError(f"--job-dir {job_dir}: this is a file: name a directory, which is made if it is missing")
    way_on = ", or choose another --job-dir"
    if any((job_dir / CHECKPOINTS).glob("*.index")):
        way_on = "; its checkpoints are whole, and the same command resumes from the newest"
    return InputError(
        f"{job_dir}: cannot write the job directory: {first_line(error)}: make room, or allow writing there{way_on}"
    )

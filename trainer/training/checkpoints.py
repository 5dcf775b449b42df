"""The checkpoints of a run, which every worker writes and reads at the same steps.

The chief writes its checkpoint last, so that if it exists, all workers have one of this step.
"""

from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from schemas.errors import InputError
from trainer.dyqn.workers import Workers
from trainer.training.job import JobDirectory, checkpoint_step, existing_checkpoints, restore

_NONE = -1


class Checkpoints:
    """Saves and restores one worker's part of a run: `checkpoint` has everything that it needs to go on."""

    def __init__(self, job: JobDirectory, checkpoint: tf.train.Checkpoint, workers: Workers):
        self._job = job
        self._manager = job.manager(checkpoint, workers.index)
        self._workers = workers

    @property
    def newest(self) -> str:
        """The path of this worker's newest checkpoint, without the endings of its files; "" if there is none."""
        return self._manager.latest_checkpoint or ""

    def save(self, step: int) -> None:
        """Writes the checkpoint of a step; it counts only if all workers have written theirs.

        Raises:
            InputError: it cannot be written.
            LostWorkerError: another worker has ended.
        """
        if self._workers.chief:
            self._workers.exchange(step)  # wait until the others have written theirs
        with self._job.writing():
            self._manager.save(checkpoint_number=step)
        if not self._workers.chief:
            self._workers.exchange(step)
        self._workers.exchange(step)  # wait for the chief's

    def restore(self, warn: Callable[[str], None]) -> str | None:
        """Restores the newest checkpoint that is whole on every worker, with a warning for each one skipped.

        Returns:
            Its path, None if the run has no checkpoint yet.

        Raises:
            InputError: there are checkpoints, and none of them is whole.
            LostWorkerError: another worker has ended.
        """
        paths = {checkpoint_step(path): path for path in existing_checkpoints(self._manager)}
        problem: InputError | None = None
        for step in self._proposals(sorted(paths, reverse=True)):
            if problem is not None:
                warn(f"warning: {problem}")
            problem = self._restore(paths.get(step), step)
            if problem is None:
                return paths[step]
        if problem is not None:
            raise problem
        return None

    def _proposals(self, steps: Sequence[int]) -> Iterator[int]:
        """Yields the chief's `steps` in order, on every worker."""
        mine = iter(steps)
        while (step := self._workers.exchange(next(mine, _NONE))[0]) != _NONE:
            yield step

    def _restore(self, path: str | None, step: int) -> InputError | None:
        """Restores this worker's checkpoint of a step; returns the fault of it or of another worker's, if any."""
        problem = None
        try:
            if path is None:
                raise InputError(
                    f"{self._manager.directory}: no checkpoint of step {step}, which the chief has: give all "
                    "workers the same --job-dir"
                )
            restore(self._manager.checkpoint, path).assert_consumed()
        except InputError as error:
            problem = error
        whole = self._workers.exchange(int(problem is None))
        if problem is None and not all(whole):
            problem = InputError(f"{path}: worker {whole.index(0)} has none of this step, or a damaged one")
        return problem

"""`triage train`, and `python -m trainer.task`: trains a DyQN agent on a data directory."""

import argparse
import pathlib
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from schemas import figures
from schemas.errors import InputError
from trainer import config

DIVERGED, BAD_INPUT = 1, 2
INTERRUPTED = 128 + signal.SIGINT


class StopRequest:
    """Turns the first Ctrl-C or SIGTERM into a request to stop after a checkpoint; a second one stops at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __enter__(self) -> "StopRequest":
        self._previous = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage train`: the directories and every hyper-parameter."""
    parser.add_argument("--data", type=pathlib.Path, required=True, help="data directory, as triage prepare makes it")
    parser.add_argument(
        "--job-dir",
        type=pathlib.Path,
        required=True,
        help="where checkpoints, evaluations and summaries go; a run that was interrupted there is resumed",
    )
    figures.add_argument(parser)
    config.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Trains.

    Returns:
        0 when all steps are done, 128 + the signal's number after Ctrl-C (130) or SIGTERM (143) with a checkpoint,
        1 when the training diverged, 138 when another worker of the run ended before that: start all of them again.

    Raises:
        InputError: the configuration, the data or the job directory is not as expected.
    """
    resolved = config.from_arguments(arguments)
    # Imported here, so that --help and a faulty configuration answer without loading TensorFlow.
    from trainer.job import JobDirectory
    from trainer.loop import TrainingDivergedError
    from trainer.session import TrainingSession
    from trainer.vignettes.tfrecord import DataDirectory
    from trainer.workers import LOST_WORKER, LostWorkerError, join

    workers = join()
    data = DataDirectory.open(arguments.data).whole()
    with JobDirectory(arguments.job_dir).locked(workers.index), StopRequest() as stop:
        try:
            session = TrainingSession(arguments.job_dir, data, resolved, workers)
            report = session.train(lambda: stop.signal is not None)
        except TrainingDivergedError as error:
            sys.stderr.write(
                f"triage train: error: {error}. The last good checkpoint is kept; try a lower --learning-rate "
                "in a new --job-dir\n"
            )
            return DIVERGED
        except LostWorkerError as error:
            sys.stderr.write(
                f"triage train: another worker is lost ({error}): start all workers again, and they go on from the "
                "last checkpoint\n"
            )
            return LOST_WORKER
    if workers.chief:
        figures.write(report, arguments.json)
    if stop.signal is not None:
        return 128 + stop.signal
    return 0 if report["finished"] else LOST_WORKER  # another worker was told to stop


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `python -m trainer.task`; returns the exit code: that of `run`, 2 on bad input, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m trainer.task", description="Train a DyQN agent.")
    add_arguments(parser)
    try:
        return run(parser.parse_args(arguments))
    except InputError as error:
        sys.stderr.write(f"{parser.prog}: error: {error}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

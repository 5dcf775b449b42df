"""`triage bench train`: the time of a training step, beside other libraries and the limits of the machine."""

import argparse
import dataclasses
import functools
import pathlib
import tempfile
from typing import Any

from rich.console import Console
from rich.progress import Progress

from schemas import figures
from schemas.errors import InputError
from trainer import options
from trainer.bench import contestants, report, task_vignettes
from trainer.bench.settings import Settings
from trainer.bench.worker import WorkerFailedError

VIGNETTES = 1_248  # the paper's training split


@dataclasses.dataclass(frozen=True)
class BenchOptions:
    """The options of `triage bench train`, see its help."""

    batch: list[int]
    steps: int
    rounds: int
    algorithm: str
    evidence: int
    sb3_python: str | None
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        for batch in self.batch:
            options.check_bounds("batch", batch, 1)
        for name in ("steps", "rounds", "evidence"):
            options.check_bounds(name, getattr(self, name), 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage bench train`."""
    parser.add_argument(
        "--batch", type=int, nargs="+", default=[100, 200, 1000], help="batch sizes (default 100 200 1000)"
    )
    parser.add_argument("--steps", type=int, default=60, help="training steps of a turn (default 60)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds; all take a turn in each (default 9)")
    parser.add_argument("--algorithm", choices=("sgd", "adam"), default="sgd", help="optimiser of all (default sgd)")
    parser.add_argument("--evidence", type=int, default=597, help="pieces of evidence in the vocabulary (default 597)")
    parser.add_argument(
        "--sb3-python",
        metavar="FILE",
        help="a Python with Stable-Baselines3; default: this one, if it has it",
    )
    figures.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measures and prints; returns the exit code.

    Raises:
        InputError: a value is out of range, `--sb3-python` has no Stable-Baselines3, the file for the figures cannot be
            written, or a contestant failed.
    """
    given = options.read(BenchOptions, arguments)
    figures.check(given.json)
    sb3_python = contestants.find_sb3(given.sb3_python)
    console = Console(stderr=True)
    measured = _measure(given, sb3_python, console)
    if sb3_python is None:
        console.print(f"{contestants.SB3} is not installed: left out (see --sb3-python)", highlight=False)
    if given.json != "-":
        for entry in measured:
            report.show(entry)
    run_of = {"format": 1, "machine": report.machine(), "steps": given.steps, "rounds": given.rounds}
    figures.write({**run_of, "batches": measured}, given.json)
    return 0


def _measure(given: BenchOptions, sb3_python: str | None, console: Console) -> list[dict[str, Any]]:
    """Returns the figures of each batch size."""
    measured = []
    with tempfile.TemporaryDirectory() as folder, Progress(console=console, transient=True) as bar:
        path = pathlib.Path(folder) / "vignettes.npz"
        task_vignettes.save(path, task_vignettes.draw(VIGNETTES, given.evidence, seed=0))
        for batch in given.batch:
            settings = Settings(str(path), given.evidence, batch_size=batch, algorithm=given.algorithm)
            commands = contestants.commands(settings, sb3_python)
            task = bar.add_task(f"batch {batch}", total=given.rounds * len(commands))
            try:
                advance = functools.partial(bar.advance, task)
                answers = contestants.compete(commands, given.steps, given.rounds, advance)
            except WorkerFailedError as error:
                raise InputError(f"--batch {batch}: {error}") from error
            measured.append(report.report(settings, given.steps, answers))
    return measured

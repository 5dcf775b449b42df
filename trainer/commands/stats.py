"""`triage stats`: statistics of a data directory, vignettes as text, or a check for anomalies."""

import argparse
import dataclasses
import pathlib

from triage_runtime.command_line import json_output, options
from triage_runtime.storage import locations

ANOMALOUS = 1
"""Exit code of `--validate` if there are errors."""


@dataclasses.dataclass(frozen=True)
class StatsOptions:
    """The options of `triage stats`, see its help."""

    data: pathlib.Path
    show: int | None
    validate: bool
    seed: int
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("seed", self.seed, 0)
        options.check_bounds("show", self.show, 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage stats`."""
    parser.add_argument("data", metavar="DIR", type=locations.source, help="data directory, as triage prepare makes it")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--show", metavar="N", type=int, help="print N random vignettes instead of the table")
    instead.add_argument(
        "--validate",
        action="store_true",
        help="check schema, counts and duplicates across the splits instead; exit code 1 if there are errors",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed for --show (default 0)")
    json_output.add_argument(parser)

"""`triage prepare`: turns vignettes into a data directory."""

import argparse
import dataclasses
import pathlib

from schemas.errors import InputError
from trainer.data import input_formats
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.options import option
from triage_runtime.storage import locations


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """The options of `triage prepare` beside those of the input format, see its help."""

    out: pathlib.Path = option("data directory to make", type=locations.result, metavar="DIR")
    format: str
    test_fraction: float = option("share of vignettes in the test split (default 0.1)", default=0.1)
    seed: int = option("seed of the split and of absent evidence (default 0)", default=0)
    whole_patient: bool = option("patients are complete: the complaint comes first, what is not listed is absent")
    allow_rejects: bool = option("skip invalid lines, and list them in a file")
    overwrite: bool = option("replace an existing data directory")
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("seed", self.seed, 0)
        if not 0 <= self.test_fraction < 1:
            raise InputError(f"--test-fraction {self.test_fraction}: expected 0 or more, and less than 1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage prepare`."""
    options.add_arguments(parser, PrepareOptions)
    input_formats.add_arguments(parser)
    json_output.add_argument(parser)


def check(arguments: argparse.Namespace) -> None:
    """Checks options, kinds of files and headers, without TensorFlow.

    Raises:
        InputError: an option or a file is faulty.
    """
    input_formats.chosen_format(arguments).open(options.read(PrepareOptions, arguments).seed)

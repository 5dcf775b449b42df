"""`triage fold`: writes one fold of a cross-validation as a data directory for any job."""

import argparse
import dataclasses
import pathlib

from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.options import option
from triage_runtime.storage import locations


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoldOptions:
    """The options of `triage fold`, see its help."""

    data: pathlib.Path = option("data directory, as triage prepare makes it", type=locations.source)
    out: pathlib.Path = option("data directory to make", type=locations.result, metavar="DIR")
    folds: int = option("number of folds, K, of the training split")
    fold: int = option("fold to test on, from 0 to K - 1")
    seed: int = option("seed of the split into folds; use the same for every fold (default 0)", default=0)
    overwrite: bool = option("replace an existing data directory")
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("folds", self.folds, 2)
        options.check_bounds("fold", self.fold, 0, self.folds - 1)
        options.check_bounds("seed", self.seed, 0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage fold`."""
    options.add_arguments(parser, FoldOptions)
    json_output.add_argument(parser)

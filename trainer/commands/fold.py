"""`triage fold`: writes one fold of a cross-validation as a data directory for any job."""

import argparse
import dataclasses
import pathlib
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from rich.console import Console

from schemas import directories
from schemas.errors import InputError
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.options import option
from triage_runtime.command_line.progress import say_result
from triage_runtime.storage import locations

if TYPE_CHECKING:  # TensorFlow loads only when the command runs
    from trainer.data.tfrecord import DataDirectory


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


def run(arguments: argparse.Namespace) -> int:
    """Writes the fold; returns 0.

    Raises:
        InputError: there is no such fold, the data directory is invalid or too small, or --out cannot be used.
    """
    from trainer.data.tfrecord import DataDirectory

    given = options.read(FoldOptions, arguments)
    data = DataDirectory.open(given.data)
    available = data.stats["splits"]["train"]["vignettes"]
    if available < given.folds:
        raise InputError(f"--folds {given.folds}: {given.data} has only {available} vignettes to train on")
    data.read("train", names=False)  # refuses shards that are damaged or lack records
    stats = _write(data, given)
    if given.json != "-":
        sizes = ", ".join(f"{split} {part['vignettes']:,}" for split, part in stats["splits"].items())
        sys.stdout.write(f"{locations.shown(given.out)}: {sizes} vignettes\n")
    json_output.write({"out": locations.shown(given.out), **stats}, given.json)
    shown = locations.shown(given.out)
    say_result(Console(stderr=True), shown, f"triage train --data {shown} --job-dir DIR")
    return 0


def _write(data: "DataDirectory", given: FoldOptions) -> dict[str, Any]:
    """Writes the vignettes of the training split with their new splits; returns stats.json."""
    from trainer.data.arrays import fold_rows
    from trainer.data.data_writer import write_splits
    from trainer.data.output import describe, output_directory
    from trainer.data.tfrecord import decode_example, read_records

    shards = data.shards("train")
    available = data.stats["splits"]["train"]["vignettes"]
    held_out = set(fold_rows(available, given.folds, given.fold, given.seed)[1].tolist())
    with output_directory(given.out, given.overwrite) as output:
        records = (record for shard in shards for record in read_records(shard))
        vignettes = [
            dataclasses.replace(decode_example(record), split=directories.SPLITS[row in held_out])
            for row, record in enumerate(records)
        ]
        written = write_splits(vignettes, output.staging, Fraction(0), given.seed)
        fold = {"folds": given.folds, "fold": given.fold, "seed": given.seed}
        stats = data.stats | written | {"fold": fold, "fold_of": data.data_fingerprint}
        describe(output.staging, data.vocabulary, stats)
        output.publish()
    return stats

"""The work of `triage fold`; its options are in `trainer.commands.fold`."""

import argparse
import dataclasses
import sys
from fractions import Fraction
from typing import Any

from rich.console import Console

from schemas import directories
from schemas.errors import InputError
from trainer.commands.fold import FoldOptions
from trainer.data.arrays import fold_rows
from trainer.data.data_writer import write_splits
from trainer.data.output import describe, output_directory
from trainer.data.tfrecord import DataDirectory, decode_example, read_records
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.progress import say_result
from triage_runtime.storage import locations


def run(arguments: argparse.Namespace) -> int:
    """Writes the fold; returns 0.

    Raises:
        InputError: there is no such fold, the data directory is invalid or too small, or --out cannot be used.
    """
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


def _write(data: DataDirectory, given: FoldOptions) -> dict[str, Any]:
    """Writes the vignettes of the training split with their new splits; returns stats.json."""
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

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
from trainer.data.tfrecord import DataDirectory
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.progress import say_result
from triage_runtime.storage import locations


def run(arguments: argparse.Namespace) -> int:
    """Writes the fold; returns 0.

    Raises:
        InputError: there is no such fold, the data directory is invalid or too small, or --out cannot be used.
    """
    given = options.read(FoldOptions, arguments)
    data, shown = DataDirectory.open(given.data), locations.shown(given.out)
    available = data.stats["splits"]["train"]["vignettes"]
    if available < given.folds:
        raise InputError(f"--folds {given.folds}: {given.data} has only {available} vignettes to train on")
    stats = _write(data, given)
    if given.json != "-":
        sizes = ", ".join(f"{split} {part['vignettes']:,}" for split, part in stats["splits"].items())
        sys.stdout.write(f"{shown}: {sizes} vignettes\n")
    json_output.write({"out": shown, **stats}, given.json)
    say_result(Console(stderr=True), shown, f"triage train --data {shown} --job-dir DIR")
    return 0


def _write(data: DataDirectory, given: FoldOptions) -> dict[str, Any]:
    """Writes the vignettes of the training split with their new splits; returns stats.json."""
    train = data.read("train")
    rows = range(len(train.vignette_ids))
    held_out = set(fold_rows(len(rows), given.folds, given.fold, given.seed)[1].tolist())
    with output_directory(given.out, given.overwrite) as output:
        vignettes = [
            dataclasses.replace(train.vignette(row, data.vocabulary), split=directories.SPLITS[row in held_out])
            for row in rows
        ]
        written = write_splits(vignettes, output.staging, Fraction(0), given.seed)
        fold = {"folds": given.folds, "fold": given.fold, "seed": given.seed}
        stats = data.stats | written | {"fold": fold, "fold_of": data.data_fingerprint}
        describe(output.staging, data.vocabulary, stats)
        output.publish()
    return stats

"""`triage fold`: writes one fold of a cross-validation as a data directory, so that any job can train on it."""

import argparse
import dataclasses
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from schemas import directories, figures, locations
from schemas.errors import InputError

if TYPE_CHECKING:  # TensorFlow loads only when the command runs
    from trainer.vignettes.tfrecord import DataDirectory

_SHARD_SIZE = 50_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage fold`."""
    parser.add_argument(
        "--data", type=locations.source, required=True, help="data directory, as triage prepare makes it"
    )
    parser.add_argument("--out", type=locations.result, required=True, metavar="DIR", help="data directory to make")
    parser.add_argument("--folds", type=int, required=True, help="K: parts into which the training split is divided")
    parser.add_argument("--fold", type=int, required=True, help="which part is the test split, from 0 to K - 1")
    parser.add_argument("--seed", type=int, default=0, help="of the division, which all folds share (default 0)")
    parser.add_argument("--overwrite", action="store_true", help="replace the data directory that stands at --out")
    figures.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the fold; returns 0.

    Raises:
        InputError: there is no such fold, the data directory is none or too small, or --out cannot be used.
    """
    from trainer.vignettes.tfrecord import DataDirectory

    if arguments.folds < 2 or not 0 <= arguments.fold < arguments.folds or arguments.seed < 0:
        raise InputError("--folds must be at least 2, --fold from 0 to one less, --seed 0 or more")
    data = DataDirectory.open(arguments.data).whole()
    available = data.stats["splits"]["train"]["vignettes"]
    if available < arguments.folds:
        raise InputError(f"{arguments.data}: {available} vignettes to train on cannot be divided by {arguments.folds}")
    stats = _write(data, arguments)
    if arguments.json != "-":
        sizes = ", ".join(f"{split} {part['vignettes']:,}" for split, part in stats["splits"].items())
        sys.stdout.write(f"{locations.shown(arguments.out)}: {sizes} vignettes\n")
    figures.write({"out": locations.shown(arguments.out), **stats}, arguments.json)
    return 0


def _write(data: "DataDirectory", arguments: argparse.Namespace) -> dict[str, Any]:
    """Writes the vignettes of the training split, divided anew; returns the statistics beside them."""
    from trainer.runs.output import OutputDirectory, describe
    from trainer.supervised.folds import fold_rows
    from trainer.vignettes.passes import WriteOptions, second_pass
    from trainer.vignettes.spool import Spool
    from trainer.vignettes.tfrecord import decode_example, read_records

    shards = data.shards("train")
    compressed = shards[0].suffix == ".gz"
    available = data.stats["splits"]["train"]["vignettes"]
    held_out = set(fold_rows(available, arguments.folds, arguments.fold, arguments.seed)[1].tolist())
    with OutputDirectory(arguments.out, arguments.overwrite) as output:
        with Spool(output.scratch, data.vocabulary) as spool:
            records = (record for shard in shards for record in read_records(shard, compressed))
            for row, record in enumerate(records):
                split = directories.SPLITS[row in held_out]
                spool.add(dataclasses.replace(decode_example(record), split=split))
        options = WriteOptions(Fraction(0), arguments.seed, _SHARD_SIZE, compressed)
        written = second_pass(spool, spool, options, output.staging)
        fold = {"folds": arguments.folds, "fold": arguments.fold, "seed": arguments.seed}
        stats = data.stats | written | {"fold": fold, "fold_of": data.data_fingerprint}
        describe(output.staging, data.vocabulary, stats)
        output.publish()
    return stats

"""`triage prepare`: turns vignettes into a data directory."""

import argparse
import dataclasses
import hashlib
import pathlib
import sqlite3
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from rich import progress as bars
from rich.console import Console

from schemas import directories, figures, locations
from schemas.errors import InputError, first_line
from schemas.evidence import Vocabulary
from trainer import options
from trainer.importing import input_formats
from trainer.importing.derived_vocabulary import kinds_of
from trainer.importing.input_formats import Source
from trainer.progress import progress_bar, say, say_result, tracked
from trainer.runs.output import OutputDirectory, describe
from trainer.vignettes.rejects import RejectLog
from trainer.vignettes.split_warnings import facts_of, split_warnings

_COLUMNS_LISTED = 12


@dataclasses.dataclass(frozen=True)
class PrepareOptions:
    """The options of `triage prepare` beside those of the input format, see its help."""

    out: pathlib.Path
    format: str
    test_fraction: float
    seed: int
    shard_size: int
    gzip: bool
    allow_rejects: bool
    overwrite: bool
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("seed", self.seed, 0)
        options.check_bounds("shard_size", self.shard_size, 1)
        if not 0 <= self.test_fraction < 1:
            raise InputError(f"--test-fraction {self.test_fraction}: expected 0 or more, and less than 1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage prepare`."""
    parser.add_argument("--out", type=locations.result, required=True, metavar="DIR", help="data directory to make")
    input_formats.add_arguments(parser)
    parser.add_argument("--test-fraction", type=float, default=0.1, help="share of the test split (default 0.1)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of absent evidence (default 0)")
    parser.add_argument("--shard-size", type=int, default=50_000, help="vignettes in a shard (default 50000)")
    parser.add_argument("--gzip", action="store_true", help="compress the shards")
    parser.add_argument("--allow-rejects", action="store_true", help="leave out lines that are not vignettes")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing data directory")
    figures.add_argument(parser)


def check(arguments: argparse.Namespace) -> None:
    """Checks options, kinds of files and headers, without TensorFlow.

    Raises:
        InputError: an option or a file is faulty.
    """
    chosen, given = input_formats.chosen_format(arguments), options.read(PrepareOptions, arguments)
    if input_formats.can_be_read_twice(chosen):
        chosen.open(given.seed)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    import tensorflow as tf

    chosen = input_formats.chosen_format(arguments)
    given = options.read(PrepareOptions, arguments)
    output = OutputDirectory(given.out, given.overwrite)
    source = chosen.open(given.seed)
    console = Console(stderr=True)
    try:
        with output, progress_bar(console) as bar:
            vocabulary, stats = _prepare(source, given, output, bar)
            output.publish()
    except (OSError, sqlite3.Error, tf.errors.OpError) as error:
        raise InputError(f"--out {given.out}: cannot write: {first_line(error)}") from error
    if source.derived:
        if source.evidence_columns:
            say(console, _taken_as_evidence(source.evidence_columns))
        say(console, locations.shown(_review(vocabulary, given.out)))
    for warning in split_warnings({split: facts_of(part) for split, part in stats["splits"].items()}):
        say(console, f"warning: {warning.text}")
    if not stats["splits"]["test"]["vignettes"]:
        say(console, "warning: the test split is empty: triage evaluate will have nothing to measure")
    if given.json != "-":
        _report(stats, given.out)
    figures.write({"out": locations.shown(given.out), **stats}, given.json)
    shown = locations.shown(given.out)
    say_result(console, shown, f"triage stats {shown} --validate, then triage train --data {shown} --job-dir DIR")
    return 0


def _prepare(
    source: Source, given: PrepareOptions, output: OutputDirectory, bar: bars.Progress
) -> tuple[Vocabulary, dict[str, Any]]:
    from trainer.vignettes.passes import WriteOptions, first_pass, second_pass
    from trainer.vignettes.spool import IdRegistry, Spool

    rejects = output.staging / directories.REJECTS
    log = RejectLog(rejects, lambda text: say(bar.console, text))
    ids = IdRegistry(output.scratch / "ids.sqlite")
    with log:
        content = source.read(output.scratch, lambda rows, unit: tracked(rows, bar, "load", unit=unit))
        with Spool(output.scratch, content.vocabulary) as spool:
            blank_lines = first_pass(tracked(content.outcomes, bar, "read"), spool, ids, log)
    ids.close()
    try:
        if log.count and not given.allow_rejects:
            total = f"{spool.count + log.count:,} {source.unit}"
            raise InputError(f"{log.count:,} of {total} were rejected, and nothing was prepared")
        if not spool.count:
            raise InputError("the input has no vignettes")
        fraction = Fraction(str(given.test_fraction))
        how = WriteOptions(fraction, given.seed, given.shard_size, given.gzip)
        written = second_pass(tracked(spool, bar, "write", spool.count), spool, how, output.staging)
    except InputError as error:
        if not log.count:
            raise
        way_on = "" if given.allow_rejects else ", or leave them out with --allow-rejects"
        place = output.publish_rejects(rejects)
        raise InputError(f"{error}; {place} lists the rejected lines: correct them{way_on}") from None
    header = _header(source, content.vocabulary, given)
    stats = header | written | {"rejected": log.count, "blank_lines": blank_lines}
    describe(output.staging, content.vocabulary, stats)
    return content.vocabulary, stats


def _header(source: Source, vocabulary: Vocabulary, given: PrepareOptions) -> dict[str, Any]:
    return {
        "format": given.format,
        "sources": _sources(source),
        "options": source.options,
        "seed": given.seed,
        "test_fraction": given.test_fraction,
        "vocabulary_fingerprint": vocabulary.fingerprint,
    }


def _sources(source: Source) -> list[dict[str, str]]:
    whole = [{"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()} for path in source.described]
    return whole + [{"file": reader.path.name, "sha256": reader.sha256} for reader in source.readers]


def _review(vocabulary: Vocabulary, out: pathlib.Path) -> str:
    return (
        f"the vocabulary was derived from the data ({kinds_of(vocabulary)}): copy {out / directories.VOCABULARY}, "
        "review its kinds, names and questions, and give the copy with --vocabulary from now on"
    )


def _taken_as_evidence(columns: Sequence[str]) -> str:
    listed = ", ".join([*columns[:_COLUMNS_LISTED], *(["..."] if len(columns) > _COLUMNS_LISTED else [])])
    return f"columns taken as evidence ({len(columns):,}): {listed}; leave out others with --ignore-columns"


def _report(stats: dict[str, Any], out: pathlib.Path) -> None:
    sizes = ", ".join(f"{split} {part['vignettes']:,}" for split, part in stats["splits"].items())
    say(
        Console(),
        f"{locations.shown(out)}: {sizes} vignettes; {stats['rejected']:,} rejected, "
        f"{stats['blank_lines']:,} blank lines",
    )

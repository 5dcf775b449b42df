"""`triage prepare`: turns vignettes into a data directory."""

import argparse
import hashlib
import importlib.resources
import itertools
import json
import os
import pathlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

from rich import progress as bars
from rich.console import Console

from schemas import directories, figures
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from trainer.ddxplus import LANGUAGES, read_release
from trainer.ddxplus_patients import PatientOptions, read_patients
from trainer.output import OutputDirectory
from trainer.rejects import RejectLog
from trainer.source import LineReader, Outcome, read_vignettes
from trainer.vignette import MAX_SAME_DECISIONS

# Options of each format, whether they are required; all are None where they are not given.
FORMATS = {
    "jsonl": {"vignettes": True, "vocabulary": True},
    "ddxplus": {
        "conditions": True, "evidences": True, "patients": True, "test_patients": False, "language": False,
        "absent_evidence": False, "decisions_per_vignette": False,
    },
}  # fmt: skip
_TICK = 500  # records between two updates of the progress bar
_T = TypeVar("_T")


class Source(NamedTuple):
    """What to prepare."""

    vocabulary: Vocabulary
    readers: Sequence[LineReader]
    outcomes: Iterable[Outcome]
    described: Sequence[pathlib.Path]  # files read whole, beside those of the readers
    options: dict[str, Any]  # of the format, for stats.json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage prepare`."""
    files: dict[str, Any] = {"type": pathlib.Path, "nargs": "+", "metavar": "FILE"}
    file: dict[str, Any] = {"type": pathlib.Path, "metavar": "FILE"}
    options = PatientOptions()
    parser.add_argument("--format", choices=tuple(FORMATS), default="jsonl", help="of the input (default jsonl)")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR", help="data directory to make")
    jsonl = parser.add_argument_group("format jsonl")
    jsonl.add_argument("--vignettes", **files, help="vignettes, one JSON object a line")
    jsonl.add_argument("--vocabulary", **file, help="CSV with the columns code, kind, name, question")
    ddxplus = parser.add_argument_group("format ddxplus")
    ddxplus.add_argument("--conditions", **file, help="release_conditions.json")
    ddxplus.add_argument("--evidences", **file, help="release_evidences.json")
    ddxplus.add_argument("--patients", **files, help="patients, CSV or a zip archive of one CSV")
    ddxplus.add_argument("--test-patients", **files, help="patients of the test split; --patients is train then")
    ddxplus.add_argument("--language", choices=LANGUAGES, help="of names and questions (default en)")
    ddxplus.add_argument(
        "--absent-evidence", type=int, metavar="N", help=f"absent codes a vignette (default {options.absent_evidence})"
    )
    ddxplus.add_argument(
        "--decisions-per-vignette", type=int, metavar="N", help=f"decisions a vignette (default {options.decisions})"
    )
    parser.add_argument("--test-fraction", type=float, default=0.1, help="share of the test split (default 0.1)")
    parser.add_argument("--seed", type=int, default=0, help="of the split and the absent evidence (default 0)")
    parser.add_argument("--shard-size", type=int, default=50_000, help="vignettes in a shard (default 50000)")
    parser.add_argument("--gzip", action="store_true", help="compress the shards")
    parser.add_argument("--allow-rejects", action="store_true", help="go on without the lines that are no vignettes")
    parser.add_argument("--overwrite", action="store_true", help="replace the data directory that stands at --out")
    figures.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    import tensorflow as tf

    _check_options(arguments)
    output = OutputDirectory(arguments.out, arguments.overwrite)
    source = _source(arguments)
    console = Console(stderr=True)
    try:
        with output, _progress(console) as bar:
            stats = _prepare(source, arguments, output, bar)
            output.publish()
    except (OSError, sqlite3.Error, tf.errors.OpError) as error:
        raise InputError(f"--out {arguments.out}: cannot write: {error}") from error
    if not stats["splits"]["test"]["vignettes"]:
        _say(console, "warning: the test split is empty: triage evaluate will have nothing to measure")
    if arguments.json != "-":
        _report(stats, arguments.out)
    figures.write({"out": str(arguments.out), **stats}, arguments.json)
    return 0


def _prepare(
    source: Source, arguments: argparse.Namespace, output: OutputDirectory, bar: bars.Progress
) -> dict[str, Any]:
    from trainer.passes import WriteOptions, first_pass, second_pass
    from trainer.spool import IdRegistry, Spool

    rejects = output.staging / directories.REJECTS
    log = RejectLog(rejects, lambda text: _say(bar.console, text))
    ids = IdRegistry(output.scratch / "ids.sqlite")
    with log, Spool(output.scratch, source.vocabulary) as spool:
        blank_lines = first_pass(_tracked(source.outcomes, bar, "read"), spool, ids, log)
    ids.close()
    try:
        if log.count and not arguments.allow_rejects:
            raise InputError(f"{log.count:,} of {spool.count + log.count:,} lines are rejected, nothing is prepared")
        if not spool.count:
            raise InputError("there is no vignette in the input")
        fraction = Fraction(str(arguments.test_fraction))
        options = WriteOptions(fraction, arguments.seed, arguments.shard_size, arguments.gzip)
        written = second_pass(_tracked(spool, bar, "write", spool.count), spool, options, output.staging)
    except InputError as error:
        if not log.count:
            raise
        way_on = "" if arguments.allow_rejects else ", or give --allow-rejects to leave them out"
        place = output.publish_rejects(rejects)
        raise InputError(f"{error}; {place} lists the rejected lines: correct them{way_on}") from None
    stats = _header(source, arguments) | written | {"rejected": log.count, "blank_lines": blank_lines}
    _describe(output.staging, source.vocabulary, stats)
    return stats


def _header(source: Source, arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "format": arguments.format,
        "sources": _sources(source),
        "options": source.options,
        "seed": arguments.seed,
        "test_fraction": arguments.test_fraction,
        "vocabulary_fingerprint": source.vocabulary.fingerprint,
    }


def _check_options(arguments: argparse.Namespace) -> None:
    wanted = FORMATS[arguments.format]
    missing = [name for name, required in wanted.items() if required and getattr(arguments, name) is None]
    others = [name for options in FORMATS.values() for name in options if name not in wanted]
    foreign = [name for name in others if getattr(arguments, name) is not None]
    faults = [f"needs {_options(missing)}"] * bool(missing) + [f"takes no {_options(foreign)}"] * bool(foreign)
    if faults:
        raise InputError(f"--format {arguments.format} {' and '.join(faults)}")
    for name, least, most in (
        ("seed", 0, None), ("shard_size", 1, None), ("absent_evidence", 0, None),
        ("decisions_per_vignette", 1, MAX_SAME_DECISIONS),
    ):  # fmt: skip
        value = getattr(arguments, name)
        if value is not None and not (least <= value and (most is None or value <= most)):
            limit = f"{least} or more" if most is None else f"{least} to {most}"
            raise InputError(f"{_options([name])} {value}: expected {limit}")
    if not 0 <= arguments.test_fraction < 1:
        raise InputError(f"--test-fraction {arguments.test_fraction}: expected 0 or more, and less than 1")


def _options(names: Iterable[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def _source(arguments: argparse.Namespace) -> Source:
    if arguments.format == "jsonl":
        vocabulary = Vocabulary.load(arguments.vocabulary)
        readers = _readers(arguments.vignettes)
        outcomes = itertools.chain.from_iterable(read_vignettes(reader, vocabulary) for reader in readers)
        return Source(vocabulary, readers, outcomes, (), {})
    return _ddxplus_source(arguments)


def _ddxplus_source(arguments: argparse.Namespace) -> Source:
    language = arguments.language or LANGUAGES[0]
    release = read_release(arguments.conditions, arguments.evidences, language)
    given = {"absent_evidence": arguments.absent_evidence, "decisions": arguments.decisions_per_vignette}
    options = PatientOptions(arguments.seed, **{name: n for name, n in given.items() if n is not None})
    test = _readers(arguments.test_patients or ())
    readers = _readers(arguments.patients) + test
    stems = [reader.path.stem for reader in readers]
    for stem in stems:
        if stems.count(stem) > 1:
            raise InputError(f"two patients files are named {stem!r}, which their vignette ids start with: rename one")
    splits = ["train" if test else None] * len(arguments.patients) + ["test"] * len(test)
    outcomes = itertools.chain.from_iterable(
        read_patients(reader, release, options, split) for reader, split in zip(readers, splits, strict=True)
    )
    described = {
        "language": language,
        "absent_evidence": options.absent_evidence,
        "decisions_per_vignette": options.decisions,
    }
    return Source(release.vocabulary, readers, outcomes, (arguments.conditions, arguments.evidences), described)


def _readers(paths: Iterable[pathlib.Path]) -> list[LineReader]:
    # Before the first line is read, for the last file may be hours away.
    for path in paths:
        if not path.exists() or path.is_dir() or not os.access(path, os.R_OK):
            raise InputError(f"{path}: cannot read: expected a file")
    return [LineReader(path) for path in paths]


def _sources(source: Source) -> list[dict[str, str]]:
    whole = [{"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()} for path in source.described]
    return whole + [{"file": reader.path.name, "sha256": reader.sha256} for reader in source.readers]


def _describe(directory: pathlib.Path, vocabulary: Vocabulary, stats: dict[str, Any]) -> None:
    """Writes what stands beside the shards."""
    vocabulary.save(directory / directories.VOCABULARY)
    schema = importlib.resources.files("schemas").joinpath("vignette.pbtxt").read_bytes()
    (directory / directories.DATA_SCHEMA).write_bytes(schema)
    text = json.dumps(stats, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    (directory / directories.STATS).write_text(text, encoding="utf-8", errors="backslashreplace")


def _progress(console: Console) -> bars.Progress:
    return bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.completed:,.0f} vignettes, {task.fields[rate]}"),
        bars.TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def _tracked(items: Iterable[_T], bar: bars.Progress, description: str, total: int | None = None) -> Iterator[_T]:
    task, count = bar.add_task(description, total=total, rate=""), 0
    for count, item in enumerate(items, start=1):
        if count % _TICK == 0:
            bar.update(task, completed=count, rate=f"{bar.tasks[task].speed or 0:,.0f}/s")
        yield item
    bar.update(task, total=count, completed=count)


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)


def _report(stats: dict[str, Any], out: pathlib.Path) -> None:
    sizes = ", ".join(f"{split} {part['vignettes']:,}" for split, part in stats["splits"].items())
    _say(Console(), f"{out}: {sizes} vignettes; {stats['rejected']:,} rejected, {stats['blank_lines']:,} blank lines")

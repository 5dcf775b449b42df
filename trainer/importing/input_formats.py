"""The input formats of `triage prepare`: their options, and how each becomes vignettes."""

import argparse
import contextlib
import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from schemas import locations
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from trainer.importing.csv_long import LongTables
from trainer.importing.csv_wide import WideTable, wide_vocabulary
from trainer.importing.ddxplus import LANGUAGES, read_release
from trainer.importing.ddxplus_patients import PatientOptions, read_patients
from trainer.importing.derived_vocabulary import malformed_code
from trainer.importing.row_groups import RowGroups
from trainer.vignettes.source import LineReader, Outcome, read_vignettes
from trainer.vignettes.vignette import MAX_SAME_DECISIONS

# Options of each format, whether they are required; all are None where they are not given.
FORMATS = {
    "jsonl": {"vignettes": True, "vocabulary": True},
    "csv-wide": {"vignettes": True, "vocabulary": False, "risk_factors": False},
    "csv-long": {"evidence_table": True, "decisions": True, "vocabulary": False, "risk_factors": False},
    "ddxplus": {
        "conditions": True, "evidences": True, "patients": True, "test_patients": False, "language": False,
        "absent_evidence": False, "decisions_per_vignette": False,
    },
}  # fmt: skip
_LEAST_AND_MOST: dict[str, tuple[int, int | None]] = {
    "absent_evidence": (0, None),
    "decisions_per_vignette": (1, MAX_SAME_DECISIONS),
}

Tracked = Callable[[Iterator[None], str], Iterable[None]]
"""Passes items on and counts them before the user's eyes as what the text says, such as "rows"."""


class Content(NamedTuple):
    """What is in the files."""

    vocabulary: Vocabulary
    outcomes: Iterable[Outcome]


class Source(NamedTuple):
    """What to prepare."""

    readers: Sequence[LineReader]
    read: Callable[[pathlib.Path, Tracked], Content]  # from an empty directory for files on the way
    described: Sequence[pathlib.Path] = ()  # files read whole, beside those of the readers
    options: dict[str, Any] = {}  # noqa: RUF012  # of the format, for stats.json; nobody writes into it
    derived: bool = False  # whether the vocabulary is derived from the data
    unit: str = "lines"  # what is accepted or rejected


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of all formats."""
    files: dict[str, Any] = {"type": locations.source, "nargs": "+", "metavar": "FILE"}
    file: dict[str, Any] = {"type": locations.source, "metavar": "FILE"}
    parser.add_argument("--format", choices=tuple(FORMATS), default="jsonl", help="of the input (default jsonl)")
    vignettes = parser.add_argument_group("formats jsonl, csv-wide and csv-long")
    vignettes.add_argument("--vignettes", **files, help="jsonl: one JSON object a line; csv-wide: one row a vignette")
    vignettes.add_argument("--evidence-table", **file, help="csv-long: columns vignette_id, evidence, presence")
    vignettes.add_argument("--decisions", **file, help="csv-long: columns vignette_id, decision")
    vignettes.add_argument("--vocabulary", **file, help="columns code, kind, name, question; CSV formats derive one")
    vignettes.add_argument(
        "--risk-factors", nargs="+", metavar="CODE", help="codes of that kind in a derived vocabulary"
    )
    _add_ddxplus_arguments(parser.add_argument_group("format ddxplus"), files, file)


def _add_ddxplus_arguments(group: argparse._ArgumentGroup, files: dict[str, Any], file: dict[str, Any]) -> None:
    options = PatientOptions()
    group.add_argument("--conditions", **file, help="release_conditions.json")
    group.add_argument("--evidences", **file, help="release_evidences.json")
    group.add_argument("--patients", **files, help="patients, CSV or a zip archive of one CSV")
    group.add_argument("--test-patients", **files, help="patients of the test split; --patients is train then")
    group.add_argument("--language", choices=LANGUAGES, help="of names and questions (default en)")
    group.add_argument(
        "--absent-evidence", type=int, metavar="N", help=f"absent codes a vignette (default {options.absent_evidence})"
    )
    group.add_argument(
        "--decisions-per-vignette", type=int, metavar="N", help=f"decisions a vignette (default {options.decisions})"
    )


def check_options(arguments: argparse.Namespace) -> None:
    """Raises an InputError where the options are not those of the format, or out of bounds."""
    wanted = FORMATS[arguments.format]
    missing = [name for name, required in wanted.items() if required and getattr(arguments, name) is None]
    others = dict.fromkeys(name for options in FORMATS.values() for name in options if name not in wanted)
    foreign = [name for name in others if getattr(arguments, name) is not None]
    faults = [f"needs {_options(missing)}"] * bool(missing) + [f"takes no {_options(foreign)}"] * bool(foreign)
    if faults:
        raise InputError(f"--format {arguments.format} {' and '.join(faults)}")
    if arguments.vocabulary is not None and arguments.risk_factors is not None:
        raise InputError("--risk-factors: the file of --vocabulary says which codes are risk factors: give one of both")
    for name, bounds in _LEAST_AND_MOST.items():
        check_bounds(name, getattr(arguments, name), *bounds)


def check_bounds(name: str, value: int | None, least: int, most: int | None = None) -> None:
    """Raises an InputError where the option `name` has a value out of bounds."""
    if value is not None and not (least <= value and (most is None or value <= most)):
        limit = f"{least} or more" if most is None else f"{least} to {most}"
        raise InputError(f"{_options([name])} {value}: expected {limit}")


def _options(names: Iterable[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def open_source(arguments: argparse.Namespace) -> Source:
    """Returns what the options name; small files and headers are read, vignettes are not.

    Raises:
        InputError: a file cannot be read, or is not of its format.
    """
    return _OPENERS[arguments.format](arguments)


def _jsonl(arguments: argparse.Namespace) -> Source:
    vocabulary = Vocabulary.load(arguments.vocabulary)
    readers = _readers(arguments.vignettes)
    outcomes = itertools.chain.from_iterable(read_vignettes(reader, vocabulary) for reader in readers)
    return Source(readers, lambda _, __: Content(vocabulary, outcomes))


def _csv_wide(arguments: argparse.Namespace) -> Source:
    given = Vocabulary.load(arguments.vocabulary) if arguments.vocabulary else None
    readers = _readers(arguments.vignettes)
    tables = [WideTable(reader) for reader in readers]
    vocabulary = wide_vocabulary(tables, given, arguments.risk_factors or ())
    outcomes = itertools.chain.from_iterable(table.read(vocabulary) for table in tables)
    options = _vocabulary_options(arguments)
    return Source(readers, lambda _, __: Content(vocabulary, outcomes), options=options, derived=given is None)


def _csv_long(arguments: argparse.Namespace) -> Source:
    given = Vocabulary.load(arguments.vocabulary) if arguments.vocabulary else None
    readers = _readers((arguments.evidence_table, arguments.decisions))
    tables = LongTables(*readers)

    def read(scratch: pathlib.Path, tracked: Tracked) -> Content:
        groups = RowGroups(scratch / "rows.sqlite", tuple(str(reader.path) for reader in readers))
        for _ in tracked(tables.load(groups, collect=given is None), "rows"):
            pass
        if given is not None:
            return Content(given, _closing(groups, tables.read(groups, given, given.unknown_message)))
        vocabulary = tables.collected.vocabulary(arguments.risk_factors or (), str(arguments.evidence_table))
        # A code that is not in a derived vocabulary is malformed.
        outcomes = tables.read(groups, vocabulary, lambda code: malformed_code(code) or f"unknown code {code!r}")
        return Content(vocabulary, _closing(groups, outcomes))

    options = _vocabulary_options(arguments)
    return Source(readers, read, options=options, derived=given is None, unit="vignettes")


def _closing(groups: RowGroups, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    with contextlib.closing(groups):
        yield from outcomes


def _vocabulary_options(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.vocabulary is not None:
        return {"vocabulary": "given"}
    return {"vocabulary": "derived", "risk_factors": arguments.risk_factors or []}


def _ddxplus(arguments: argparse.Namespace) -> Source:
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
    whole = (arguments.conditions, arguments.evidences)
    return Source(readers, lambda _, __: Content(release.vocabulary, outcomes), whole, described)


def _readers(paths: Iterable[pathlib.Path]) -> list[LineReader]:
    # Before the first line is read, for the last file may be hours away.
    for path in paths:
        if not path.exists() or path.is_dir() or not os.access(path, os.R_OK):
            raise InputError(f"{path}: cannot read: expected a file")
    return [LineReader(path) for path in paths]


_OPENERS = {"jsonl": _jsonl, "csv-wide": _csv_wide, "csv-long": _csv_long, "ddxplus": _ddxplus}

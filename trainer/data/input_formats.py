"""The input formats of `triage prepare`: their options, and how each is read."""

import argparse
import dataclasses
import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.text_file import Line
from trainer.data.csv_files import LongTables, WideTable, wide_vocabulary
from trainer.data.ddxplus import ABSENT_FROM, DIFFERENTIAL, PatientOptions, read_patients, read_release
from trainer.data.derived_vocabulary import malformed_code
from trainer.data.feedback import read_feedback
from trainer.data.source import Accepted, LineReader, Outcome, check_kind, read_each
from trainer.data.vignette import from_fields
from triage_runtime.case import parse_object
from triage_runtime.command_line import options
from triage_runtime.storage import locations

Tracked = Callable[[Iterator[None], str], Iterable[None]]
"""Passes items on and shows their number; the text is their unit, such as "rows"."""


class Content(NamedTuple):
    """The content of the files."""

    vocabulary: Vocabulary
    outcomes: Iterable[Outcome]


class Source(NamedTuple):
    """The input of `triage prepare`."""

    readers: Sequence[LineReader]
    read: Callable[[Tracked], Content]
    described: Sequence[pathlib.Path] = ()  # files that are read whole, beside those of the readers
    options: dict[str, Any] = {}  # noqa: RUF012  # of the format, for stats.json; never modified
    derived: bool = False  # whether the vocabulary is derived from the data
    unit: str = "lines"  # what is accepted or rejected
    evidence_columns: tuple[str, ...] = ()  # columns of wide files that were taken as evidence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of all formats."""
    files: dict[str, Any] = {"type": locations.source, "action": "extend", "nargs": "+", "metavar": "FILE"}
    file: dict[str, Any] = {"type": locations.source, "metavar": "FILE"}
    parser.add_argument("--format", choices=tuple(FORMATS), default="jsonl", help="format of the input (default jsonl)")
    vignettes = parser.add_argument_group("formats jsonl, csv-wide, csv-long and feedback")
    vignettes.add_argument(
        "--vignettes", **files, help="jsonl: one JSON object per line; csv-wide: one row per vignette"
    )
    vignettes.add_argument("--evidence-table", **file, help="csv-long: columns vignette_id, evidence, presence")
    vignettes.add_argument("--decisions", **file, help="csv-long: columns vignette_id, decision")
    vignettes.add_argument(
        "--vocabulary", **file, help="CSV with columns code, kind, name, question; by default derived from CSV input"
    )
    several: Any = {"action": "extend", "nargs": "+"}
    vignettes.add_argument("--risk-factors", **several, metavar="CODE", help="risk factors in a derived vocabulary")
    vignettes.add_argument(
        "--ignore-columns", **several, metavar="COLUMN", help="csv-wide: columns that are not evidence, such as notes"
    )
    vignettes.add_argument(
        "--feedback",
        **files,
        help="feedback: files or directories that triage serve --cds-feedback wrote; --vignettes adds others",
    )
    _add_ddxplus_arguments(parser.add_argument_group("format ddxplus"), files, file)


def _add_ddxplus_arguments(group: argparse._ArgumentGroup, files: dict[str, Any], file: dict[str, Any]) -> None:
    group.add_argument("--conditions", **file, help="release_conditions.json")
    group.add_argument("--evidences", **file, help="release_evidences.json")
    group.add_argument("--patients", **files, help="patients: a CSV file, or a zip archive of one")
    group.add_argument("--test-patients", **files, help="patients of the test split; --patients then are for training")
    group.add_argument(
        "--absent-from",
        choices=ABSENT_FROM,
        help="where absent codes are drawn from: the patient's own differential (default), or all conditions",
    )


def chosen_format(arguments: argparse.Namespace, kind: Any = None) -> "Format":
    """Returns the format that the options name, or that of the class `kind`, with its options.

    Raises:
        InputError: an option is missing, belongs to another format, or is out of bounds.
    """
    kind = kind or FORMATS[arguments.format]
    required = {field.name: field.default is dataclasses.MISSING for field in dataclasses.fields(kind)}
    missing = [name for name, needed in required.items() if needed and getattr(arguments, name) is None]
    foreign = [name for name in OPTIONS if name not in required and getattr(arguments, name) is not None]
    faults = [f"needs {_flags(missing)}"] * bool(missing) + [f"takes no {_flags(foreign)}"] * bool(foreign)
    if faults:
        raise InputError(f"--format {arguments.format} {' and '.join(faults)}")
    if arguments.vocabulary is not None and arguments.risk_factors is not None:
        raise InputError("--risk-factors: the file of --vocabulary names the risk factors: give only one of the two")
    return options.read(kind, arguments)


def _flags(names: Iterable[str]) -> str:
    return ", ".join(map(options.flag, names))


class Format(Protocol):
    """A format; its fields are its options, and those without a default are required."""

    def open(self, seed: int, /) -> Source:
        """Returns what the options name; small files and headers are read, vignettes are not.

        `seed` decides every random draw that makes a vignette.

        Raises:
            InputError: a file cannot be read, or is not of its format.
        """


@dataclasses.dataclass(frozen=True)
class Jsonl:
    """One JSON object a line."""

    vignettes: list[pathlib.Path]
    vocabulary: pathlib.Path

    def open(self, _seed: int) -> Source:
        """See `Format`."""
        readers = _readers(self.vignettes)
        for path in self.vignettes:
            check_kind(path)
        vocabulary = Vocabulary.load(self.vocabulary)

        def accepted(line: Line) -> Accepted:
            return Accepted(line, from_fields(parse_object(line.decoded()), vocabulary))

        outcomes = itertools.chain.from_iterable(read_each(reader, accepted) for reader in readers)
        return Source(readers, lambda _: Content(vocabulary, outcomes))


@dataclasses.dataclass(frozen=True)
class CsvWide:
    """A row a vignette, a column a piece of evidence."""

    vignettes: list[pathlib.Path]
    vocabulary: pathlib.Path | None = None
    risk_factors: list[str] | None = None
    ignore_columns: list[str] | None = None

    def open(self, _seed: int) -> Source:
        """See `Format`."""
        given = Vocabulary.load(self.vocabulary) if self.vocabulary else None
        readers = _readers(self.vignettes)
        tables = [WideTable(reader, self.ignore_columns or ()) for reader in readers]
        vocabulary = wide_vocabulary(tables, given, self.risk_factors or ())
        outcomes = itertools.chain.from_iterable(table.read(vocabulary) for table in tables)
        stated = _vocabulary_options(self)
        if self.ignore_columns:
            stated["ignored_columns"] = self.ignore_columns
        columns = tuple(dict.fromkeys(code for table in tables for code in table.codes))
        return Source(
            readers, lambda _: Content(vocabulary, outcomes), options=stated, derived=given is None,
            evidence_columns=columns,
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class CsvLong:
    """A row a piece of evidence in one file, a row a decision in another."""

    evidence_table: pathlib.Path
    decisions: pathlib.Path
    vocabulary: pathlib.Path | None = None
    risk_factors: list[str] | None = None

    def open(self, _seed: int) -> Source:
        """See `Format`."""
        given = Vocabulary.load(self.vocabulary) if self.vocabulary else None
        readers = _readers((self.evidence_table, self.decisions))
        tables = LongTables(*readers)

        def read(tracked: Tracked) -> Content:
            for _ in tracked(tables.load(collect=given is None), "rows"):
                pass
            if given is not None:
                return Content(given, tables.read(given, given.unknown_message))
            vocabulary = tables.collected.vocabulary(self.risk_factors or (), str(self.evidence_table))
            # A code that is not in a derived vocabulary is malformed.
            outcomes = tables.read(vocabulary, lambda code: malformed_code(code) or f"unknown code {code!r}")
            return Content(vocabulary, outcomes)

        stated = _vocabulary_options(self)
        return Source(readers, read, options=stated, derived=given is None, unit="vignettes")


@dataclasses.dataclass(frozen=True)
class Ddxplus:
    """A release of DDXPlus."""

    conditions: pathlib.Path
    evidences: pathlib.Path
    patients: list[pathlib.Path]
    test_patients: list[pathlib.Path] | None = None
    absent_from: str | None = None

    def open(self, seed: int) -> Source:
        """See `Format`."""
        release = read_release(self.conditions, self.evidences)
        how = PatientOptions(seed, absent_from=self.absent_from or DIFFERENTIAL)
        test = _readers(self.test_patients or ())
        readers = _readers(self.patients) + test
        stems = [reader.path.stem for reader in readers]
        for stem in stems:
            if stems.count(stem) > 1:
                raise InputError(
                    f"two patients files are named {stem!r}, which their vignette ids start with: rename one"
                )
        splits = ["train" if test else None] * len(self.patients) + ["test"] * len(test)
        outcomes = itertools.chain.from_iterable(
            read_patients(reader, release, how, split) for reader, split in zip(readers, splits, strict=True)
        )
        stated = {name: value for name, value in dataclasses.asdict(how).items() if name != "seed"}
        whole = (self.conditions, self.evidences)
        return Source(readers, lambda _: Content(release.vocabulary, outcomes), whole, stated)


@dataclasses.dataclass(frozen=True)
class Feedback:
    """What clinicians made of cards, beside vignettes that there are already."""

    feedback: list[pathlib.Path]
    vocabulary: pathlib.Path
    vignettes: list[pathlib.Path] | None = None

    def open(self, seed: int) -> Source:
        """See `Format`."""
        paths = [file for path in self.feedback for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
        vocabulary, readers = Vocabulary.load(self.vocabulary), _readers(paths)
        before = Jsonl(self.vignettes, self.vocabulary).open(seed) if self.vignettes else None

        def read(tracked: Tracked) -> Content:
            others = before.read(tracked).outcomes if before else ()
            return Content(vocabulary, itertools.chain(others, read_feedback(readers, vocabulary)))

        return Source([*(before.readers if before else ()), *readers], read)


FORMATS: dict[str, Any] = {
    "jsonl": Jsonl, "csv-wide": CsvWide, "csv-long": CsvLong, "ddxplus": Ddxplus, "feedback": Feedback,
}  # fmt: skip
"""The class of each format, by its name on the command line."""
OPTIONS = tuple(dict.fromkeys(field.name for each in FORMATS.values() for field in dataclasses.fields(each)))
"""The names of all their options."""


def _vocabulary_options(table: CsvWide | CsvLong) -> dict[str, Any]:
    if table.vocabulary is not None:
        return {"vocabulary": "given"}
    return {"vocabulary": "derived", "risk_factors": table.risk_factors or []}


def _readers(paths: Iterable[pathlib.Path]) -> list[LineReader]:
    # Checked before the first line is read, as the last file may be reached hours later.
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file")
        if not path.is_file() or not os.access(path, os.R_OK):  # it is read more than once, as no pipe can be
            raise InputError(f"{path}: cannot read: {'no permission' if path.is_file() else 'not a regular file'}")
    return [LineReader(path) for path in paths]

"""Wide CSV files of vignettes: a row per vignette, a column per piece of evidence."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from schemas.csv_table import CsvTable, Row
from schemas.errors import InputError, shown
from schemas.evidence import Vocabulary
from trainer.importing.csv_cells import (
    OPTIONAL_COLUMNS,
    decision_label,
    optional_fields,
    parse_list,
    parse_presence,
    stated_id,
)
from trainer.importing.derived_vocabulary import CodeCollector, malformed_code
from trainer.vignettes.source import Accepted, LineReader, Outcome, Rejected
from trainer.vignettes.vignette import VignetteError, from_fields

COLUMNS = ("vignette_id", "decisions")
"""Required columns beside those of evidence."""
_LISTED = 5  # further headings that a message lists


class WideTable:
    """A wide file, after its header has been read.

    Args:
        reader: the file.
        ignored: headings of columns to leave out.

    Raises:
        InputError: the file cannot be read, has another header, or lacks a column to leave out.
    """

    def __init__(self, reader: LineReader, ignored: Sequence[str] = ()):
        self._table = CsvTable(reader, reader.path, COLUMNS, OPTIONAL_COLUMNS, others=".+")
        self.header = where = self._table.header
        """Its place, for errors."""
        known = (*COLUMNS, *OPTIONAL_COLUMNS)
        self._known = {name: self._table.columns.index(name) for name in known if name in self._table.columns}
        self._evidence = [
            (n, column) for n, column in enumerate(self._table.columns) if column not in (*known, *ignored)
        ]
        for column in ignored:
            if column in COLUMNS or column not in self._table.columns:
                fault = "it is required" if column in COLUMNS else f"{reader.path} has no such column"
                raise InputError(f"--ignore-columns {column}: {fault}")
        if not self._evidence:
            raise InputError(f"{where}: expected a column for each piece of evidence, with its code as the heading")
        for n, column in self._evidence:
            if column.lower() in known:
                raise InputError(f"{where}: column {n + 1}: {column!r} is not evidence: write {column.lower()!r}")

    @property
    def codes(self) -> tuple[str, ...]:
        """The headings of the evidence columns."""
        return tuple(column for _, column in self._evidence)

    def check_codes(self, fault_of: Callable[[str], str | None]) -> None:
        """Raises an InputError if `fault_of` returns a fault for the heading of an evidence column."""
        faults = [(n + 1, column, fault) for n, column in self._evidence if (fault := fault_of(column))]
        if faults:
            place, _, fault = faults[0]
            others = [f"column {n} {shown(column)}" for n, column, _ in faults[1:]]
            more = ", ".join(others[:_LISTED] + ["..."] * (len(others) > _LISTED))
            also = f"; the same applies to {len(others):,} more: {more}" if others else ""
            raise InputError(f"{self.header}: column {place}: {fault}{also}")

    def read(self, vocabulary: Vocabulary) -> Iterator[Outcome]:
        """Yields the outcome of each row, once; all headings must be in the vocabulary.

        Raises:
            InputError: a row has no vignette id.
        """
        for row in self._table:
            yield None if row is None else self._outcome(row, vocabulary)

    def _outcome(self, row: Row, vocabulary: Vocabulary) -> Outcome:
        vignette_id = stated_id(row, self._known["vignette_id"])
        try:
            if row.fault:
                raise VignetteError(row.fault)
            return Accepted(row.line, from_fields(self._fields(row.cells, vocabulary), vocabulary))
        except VignetteError as error:
            return Rejected(row.line, vignette_id, str(error))

    def _fields(self, cells: Sequence[str], vocabulary: Vocabulary) -> dict[str, Any]:
        known = {name: cells[place] for name, place in self._known.items()}
        evidence: dict[bool, list[str]] = {True: [], False: []}
        for place, code in self._evidence:
            if cells[place] and code in vocabulary.bands.units:
                evidence[True].append(f"{code}={cells[place]}")
            elif cells[place]:
                try:
                    evidence[parse_presence(cells[place])].append(code)
                except VignetteError as error:
                    raise VignetteError(
                        f"{code}: {error}; leave the cell empty if it is not known, or the column out with "
                        "--ignore-columns if it is not evidence"
                    ) from None
        return {
            "vignette_id": known["vignette_id"],
            "present": evidence[True],
            "absent": evidence[False],
            "decisions": [decision_label(cell) for cell in parse_list(known["decisions"])],
            **optional_fields(known),
        }


def wide_vocabulary(tables: Sequence[WideTable], given: Vocabulary | None, risk_factors: Sequence[str]) -> Vocabulary:
    """Returns the vocabulary of wide files: the given one, or else the one derived from their headings.

    Raises:
        InputError: a heading is not an evidence code, or `risk_factors` has a code that is not a heading.
    """
    if given is not None:
        vocabulary = given  # not None in the function below
        for table in tables:
            table.check_codes(
                lambda code: (
                    None if code in vocabulary or code in vocabulary.bands.units else vocabulary.unknown_message(code)
                )
            )
        return vocabulary
    collected = CodeCollector()
    for table in tables:
        table.check_codes(malformed_code)
        for code in table.codes:
            collected.add(code, table.header)
    return collected.vocabulary(risk_factors, tables[0].header)

"""Long CSV files of vignettes: a row per piece of evidence in one file, a row per decision in another."""

import array
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from schemas.csv_table import CsvTable, Row
from schemas.errors import InputError, shown
from schemas.evidence import Vocabulary
from schemas.text_file import Line
from schemas.triage import parse_decision
from trainer.importing.csv_cells import (
    OPTIONAL_COLUMNS,
    decision_label,
    optional_fields,
    parse_presence,
    stated_id,
)
from trainer.importing.derived_vocabulary import CodeCollector
from trainer.vignettes.source import Accepted, LineReader, Outcome, Rejected
from trainer.vignettes.vignette import VignetteError, from_fields

EVIDENCE_COLUMNS = ("vignette_id", "evidence", "presence")
DECISION_COLUMNS = ("vignette_id", "decision")

_EVIDENCE, _DECISIONS = 0, 1  # the file that a row is from
_LISTED = 5  # further bad rows that a reason lists


class LongTables:
    """Both files, after their headers have been read. The rows of a vignette may be anywhere in them.

    Args:
        evidence: the file with the columns `EVIDENCE_COLUMNS`.
        decisions: the file with the columns `DECISION_COLUMNS`, and optional ones.

    Raises:
        InputError: a file cannot be read or has another header.
    """

    def __init__(self, evidence: LineReader, decisions: LineReader):
        self.tables = (
            CsvTable(evidence, evidence.path, EVIDENCE_COLUMNS),
            CsvTable(decisions, decisions.path, DECISION_COLUMNS, OPTIONAL_COLUMNS),
        )
        self.blank_lines = 0
        self.collected = CodeCollector()
        """The codes in the evidence file, after `load` with `collect`."""

    def load(self, groups: "RowGroups", collect: bool) -> Iterator[None]:
        """Puts all rows into `groups`, yielding after each; collects the codes if `collect` is true.

        Raises:
            InputError: a row does not say to which vignette it belongs, so that one of them would lack it.
        """
        for source, table in enumerate(self.tables):
            id_place = table.columns.index("vignette_id")
            code_place = table.columns.index("evidence") if collect and source == _EVIDENCE else None
            for row in table:
                yield
                if row is None:
                    self.blank_lines += 1
                    continue
                vignette_id = stated_id(row, id_place)
                if vignette_id is None:
                    raise InputError(f"{row.line.file}: line {row.line.number}: no readable vignette_id: {row.fault}")
                groups.add(vignette_id, source, row.line)
                if code_place is not None and row.fault is None:
                    self.collected.add(row.cells[code_place], f"{row.line.file}: line {row.line.number}")

    def read(self, groups: "RowGroups", vocabulary: Vocabulary, explain: Callable[[str], str]) -> Iterator[Outcome]:
        """Yields the outcome of the rows of each vignette.

        Args:
            groups: the rows, after `load`.
            vocabulary: the known evidence.
            explain: returns the message about a code that is not in the vocabulary.
        """
        for _ in range(self.blank_lines):
            yield None
        for vignette_id, lines in groups:
            vignette_rows = _VignetteRows(self.tables, vignette_id, lines[0][1])
            for source, line in lines:
                if row := self.tables[source].row(line):  # blank ones are not in `groups`
                    vignette_rows.add(source, row, vocabulary, explain)
            yield vignette_rows.outcome(vocabulary)


class _VignetteRows:
    """The rows of one vignette, and their faults."""

    def __init__(self, tables: Sequence[CsvTable], vignette_id: str, first: Line):
        self._tables = tables
        self._vignette_id = vignette_id
        self._first = first
        self._evidence: dict[str, tuple[bool, int]] = {}  # presence and line number, by code
        self._decisions: list[str] = []
        self._optional: tuple[dict[str, Any], int] | None = None  # of the first decision, and its line number
        self._faults: list[tuple[Line, str]] = []

    def add(self, source: int, row: Row, vocabulary: Vocabulary, explain: Callable[[str], str]) -> None:
        """Adds a row, or records why it cannot be added."""
        try:
            if row.fault:
                raise VignetteError(row.fault)
            cells = dict(zip(self._tables[source].columns, row.cells, strict=True))
            if source == _DECISIONS:
                self._add_decision(cells, row.line.number)
            elif cells["evidence"] in vocabulary.bands.units:
                self._add_evidence(f"{cells['evidence']}={cells['presence']}", "present", row.line.number)
            elif cells["evidence"] not in vocabulary:
                raise VignetteError(f"evidence: {explain(cells['evidence'])}")
            else:
                self._add_evidence(cells["evidence"], cells["presence"], row.line.number)
        except InputError as error:
            self._faults.append((row.line, str(error)))

    def _add_evidence(self, code: str, presence: str, number: int) -> None:
        try:
            present = parse_presence(presence)
        except VignetteError as error:
            raise VignetteError(f"presence of {shown(code)}: {error}; delete the row if it is not known") from None
        if code in self._evidence:
            before, line = self._evidence[code]
            word = "present" if before else "absent"
            raise VignetteError(f"evidence: {shown(code)} is {word} on line {line} already: delete one of the rows")
        self._evidence[code] = present, number

    def _add_decision(self, cells: Mapping[str, str], number: int) -> None:
        decision = parse_decision(decision_label(cells["decision"]))
        optional = optional_fields(cells)
        if self._optional is None:
            self._optional = optional, number
        else:
            stated, line = self._optional
            for column in OPTIONAL_COLUMNS:
                if stated.get(column) != optional.get(column):
                    raise VignetteError(
                        f"{column}: differs from line {line}: expected the same on each row of a vignette"
                    )
        self._decisions.append(decision.label)

    def outcome(self, vocabulary: Vocabulary) -> Accepted | Rejected:
        """Returns the outcome of all rows together."""
        (line, reason), *more = self._faults or [(self._first, self._missing())]
        if more:
            places = [f"{each.file}:{each.number}" for each, _ in more[:_LISTED]] + ["..."] * (len(more) > _LISTED)
            reason = f"{reason}; {len(more):,} more of its rows are faulty: {', '.join(places)}"
        if reason:
            return Rejected(line, self._vignette_id, reason)
        fields = {
            "vignette_id": self._vignette_id,
            "present": [code for code, (present, _) in self._evidence.items() if present],
            "absent": [code for code, (present, _) in self._evidence.items() if not present],
            "decisions": self._decisions,
            **(self._optional[0] if self._optional else {}),
        }
        try:
            return Accepted(line, from_fields(fields, vocabulary))
        except VignetteError as error:
            return Rejected(line, self._vignette_id, str(error))

    def _missing(self) -> str:
        for rows, source, what in ((self._evidence, _EVIDENCE, "evidence"), (self._decisions, _DECISIONS, "decisions")):
            if not rows:
                return f"no {what}: no row of {self._tables[source].source} has this vignette_id"
        return ""


class RowGroups:
    """Takes lines with the id they belong to, and returns them group by group.

    Groups come in the order of their first lines, and the lines of a group in the order in which they were added. A
    line takes its bytes and 40 more, as Python's objects would take some 300.

    Args:
        files: the name of each source.
    """

    def __init__(self, files: tuple[str, ...]):
        self._files = files
        self._ids: dict[str, int] = {}  # their groups
        self._groups = array.array("q")  # of each line
        self._lines = array.array("q")  # four numbers for each line: source, number, length, end of its content
        self._content = bytearray()

    def add(self, name: str, source: int, line: Line) -> None:
        """Adds a line to the group with the id `name`."""
        self._groups.append(self._ids.setdefault(name, len(self._ids)))
        self._content += line.content
        self._lines.extend((source, line.number, line.length, len(self._content)))

    def __iter__(self) -> Iterator[tuple[str, list[tuple[int, Line]]]]:
        """Yields the id and the lines of each group, each with its source."""
        order = np.argsort(np.asarray(self._groups), kind="stable")
        by_group = itertools.groupby(order, self._groups.__getitem__)
        for vignette_id, (_, rows) in zip(self._ids, by_group, strict=True):
            yield vignette_id, list(map(self._line, rows))

    def _line(self, row: int) -> tuple[int, Line]:
        source, number, length, end = self._lines[4 * row : 4 * row + 4]
        start = self._lines[4 * row - 1] if row else 0
        return source, Line(self._files[source], number, length, bytes(self._content[start:end]))

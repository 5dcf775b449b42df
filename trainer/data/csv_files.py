"""CSV files of vignettes: wide ones, a row per vignette, and long ones, a row per piece of evidence or decision."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from schemas.bands import is_numeric
from schemas.csv_table import CsvRow, CsvTable
from schemas.errors import InputError, shown
from schemas.evidence import Vocabulary
from schemas.triage import DECISION_LABELS, parse_decision
from trainer.data.derived_vocabulary import CodeCollector, malformed_code
from trainer.data.source import Accepted, LineReader, Outcome, Rejected
from trainer.data.vignette import VignetteError, from_fields
from triage_runtime.case import PRESENCE

LIST_SEPARATOR = ";"
"""Separates the items of a cell."""
OPTIONAL_COLUMNS = ("split", "tags")
COLUMNS = ("vignette_id", "decisions")
"""Required columns of a wide file beside those of evidence."""
EVIDENCE_COLUMNS = ("vignette_id", "evidence", "presence")
DECISION_COLUMNS = ("vignette_id", "decision")
_LISTED = 5  # further headings, or bad rows, that a message lists


def parse_presence(cell: str) -> bool:
    """Returns whether a cell says present rather than absent.

    Raises:
        VignetteError: it says neither.
    """
    presence = PRESENCE.get(cell.lower())
    if presence is None:
        found = "a number, of which the vocabulary has no band (docs/data.md)" if is_numeric(cell) else shown(cell)
        raise VignetteError(f"expected present or absent (or 1/0, yes/no, true/false, +/-), found {found}")
    return presence


def parse_list(cell: str) -> list[str]:
    """Returns the items of a cell."""
    return [item.strip() for item in cell.split(LIST_SEPARATOR)] if cell else []


def read_evidence(cells: Mapping[str, str], measures: Collection[str]) -> dict[str, list[str]]:
    """Returns the codes that cells by code say are present, and absent; those of `measures` hold numbers.

    Raises:
        VignetteError: a cell says neither.
    """
    stated: dict[str, list[str]] = {"present": [], "absent": []}
    for code, cell in cells.items():
        if code in measures:
            stated["present"].append(f"{code}={cell}")
            continue
        try:
            stated["present" if parse_presence(cell) else "absent"].append(code)
        except VignetteError as error:
            raise VignetteError(f"{code}: {error}") from None
    return stated


def decision_label(cell: str) -> str:
    """Returns the label of a triage decision written in any case; what names none stays as it is."""
    label = cell.capitalize()
    return label if label in DECISION_LABELS else cell


def _optional_fields(cells: Mapping[str, str]) -> dict[str, Any]:
    """Returns `split` and `tags` as in a vignette file; an empty cell is None."""
    return {"split": cells.get("split") or None, "tags": parse_list(cells.get("tags", "")) or None}


def _stated_id(row: CsvRow, place: int) -> str | None:
    """Returns the vignette id in the cell at `place`, None if the row cannot be read so far.

    Raises:
        InputError: the cell is empty, as below the first row of merged cells: what the row says would be lost.
    """
    if place >= len(row.cells):
        return None
    if not row.cells[place]:
        raise InputError(
            f"{row.line.file}: line {row.line.number}: no vignette_id: give each row its own, which merged cells have "
            "in their first row alone, or delete the row"
        )
    return row.cells[place]


def _first_and_others(listed: Sequence[str]) -> str:
    return ", ".join([*listed[:_LISTED], *["..."] * (len(listed) > _LISTED)])


class WideTable:
    """A wide file, after its header has been read, without the columns `ignored`.

    Raises:
        InputError: the file cannot be read, has another header, or lacks a column to leave out.
    """

    def __init__(self, reader: LineReader, ignored: Sequence[str] = ()):
        self._table = CsvTable(reader, reader.path, COLUMNS, OPTIONAL_COLUMNS, others=True)
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
            also = f"; the same applies to {len(others):,} more: {_first_and_others(others)}" if others else ""
            raise InputError(f"{self.header}: column {place}: {fault}{also}")

    def read(self, vocabulary: Vocabulary) -> Iterator[Outcome]:
        """Yields the outcome of each row, once; all headings must be in the vocabulary.

        Raises:
            InputError: a row has no vignette id.
        """
        for row in self._table:
            yield None if row is None else self._outcome(row, vocabulary)

    def _outcome(self, row: CsvRow, vocabulary: Vocabulary) -> Outcome:
        vignette_id = _stated_id(row, self._known["vignette_id"])
        try:
            if row.fault:
                raise VignetteError(row.fault)
            return Accepted(row.line, from_fields(self._fields(row.cells, vocabulary), vocabulary))
        except VignetteError as error:
            return Rejected(row.line, vignette_id, str(error))

    def _fields(self, cells: Sequence[str], vocabulary: Vocabulary) -> dict[str, Any]:
        known = {name: cells[place] for name, place in self._known.items()}
        evidence = {code: cells[place] for place, code in self._evidence if cells[place]}
        try:
            stated = read_evidence(evidence, vocabulary.bands.units)
        except VignetteError as error:
            raise VignetteError(
                f"{error}; leave the cell empty if it is not known, or the column out with --ignore-columns if it is "
                "not evidence"
            ) from None
        return {
            "vignette_id": known["vignette_id"],
            **stated,
            "decisions": [decision_label(cell) for cell in parse_list(known["decisions"])],
            **_optional_fields(known),
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


class LongTables:
    """Both long files, after their headers have been read. The rows of a vignette may be anywhere in them.

    Raises:
        InputError: a file cannot be read or has another header.
    """

    def __init__(self, evidence: LineReader, decisions: LineReader):
        self._evidence = CsvTable(evidence, evidence.path, EVIDENCE_COLUMNS)
        self._decisions = CsvTable(decisions, decisions.path, DECISION_COLUMNS, OPTIONAL_COLUMNS)
        self._rows: dict[str, list[tuple[CsvTable, CsvRow]]] = {}  # of each vignette
        self._blank_lines = 0
        self.collected = CodeCollector()
        """The codes in the evidence file, after `load` with `collect`."""

    def load(self, collect: bool) -> Iterator[None]:
        """Keeps all rows, yielding after each; collects the codes if `collect` is true.

        Raises:
            InputError: a row does not say to which vignette it belongs, so that one of them would lack it.
        """
        for table in (self._evidence, self._decisions):
            id_place = table.columns.index("vignette_id")
            for row in table:
                yield
                if row is None:
                    self._blank_lines += 1
                    continue
                vignette_id = _stated_id(row, id_place)
                if vignette_id is None:
                    raise InputError(f"{row.line.file}: line {row.line.number}: no readable vignette_id: {row.fault}")
                self._rows.setdefault(vignette_id, []).append((table, row))
                if collect and table is self._evidence and row.fault is None:
                    code = row.cells[table.columns.index("evidence")]
                    self.collected.add(code, f"{row.line.file}: line {row.line.number}")

    def read(self, vocabulary: Vocabulary, explain: Callable[[str], str]) -> Iterator[Outcome]:
        """Yields the outcome of the rows of each vignette, after `load`.

        `explain` returns the message about a code that is not in the vocabulary.
        """
        yield from [None] * self._blank_lines
        for vignette_id, rows in self._rows.items():
            yield self._outcome(vignette_id, rows, vocabulary, explain)

    def _outcome(
        self,
        vignette_id: str,
        rows: Sequence[tuple[CsvTable, CsvRow]],
        vocabulary: Vocabulary,
        explain: Callable[[str], str],
    ) -> Outcome:
        vignette = _LongVignette(vignette_id, vocabulary, explain)
        faults = []
        for table, row in rows:
            try:
                if row.fault:
                    raise VignetteError(row.fault)
                cells = dict(zip(table.columns, row.cells, strict=True))
                (vignette.add_evidence if table is self._evidence else vignette.add_decision)(cells, row.line.number)
            except InputError as error:
                faults.append((row.line, str(error)))
        for table in (self._evidence, self._decisions):
            if not faults and all(table is not source for source, _ in rows):
                what = "evidence" if table is self._evidence else "decisions"
                faults = [(rows[0][1].line, f"no {what}: no row of {table.source} has this vignette_id")]
        if faults:
            (line, reason), *more = faults
            if more:
                places = _first_and_others([f"{each.file}:{each.number}" for each, _ in more])
                reason = f"{reason}; {len(more):,} more of its rows are faulty: {places}"
            return Rejected(line, vignette_id, reason)
        try:
            return Accepted(rows[0][1].line, from_fields(vignette.fields(), vocabulary))
        except VignetteError as error:
            return Rejected(rows[0][1].line, vignette_id, str(error))


class _LongVignette:
    """What the rows of one vignette say."""

    def __init__(self, vignette_id: str, vocabulary: Vocabulary, explain: Callable[[str], str]):
        self._vignette_id = vignette_id
        self._vocabulary = vocabulary
        self._explain = explain
        self._evidence: dict[str, tuple[bool, int]] = {}  # presence and line number, by code
        self._decisions: list[str] = []
        self._optional: tuple[dict[str, Any], int] | None = None  # of the first decision, and its line number

    def add_evidence(self, cells: Mapping[str, str], number: int) -> None:
        """Adds the cells of a row, by column, on the line `number`; raises InputError if they cannot be added."""
        code, presence = cells["evidence"], cells["presence"]
        if code in self._vocabulary.bands.units:
            code, presence = f"{code}={presence}", "present"
        elif code not in self._vocabulary:
            raise VignetteError(f"evidence: {self._explain(code)}")
        try:
            present = parse_presence(presence)
        except VignetteError as error:
            raise VignetteError(f"presence of {shown(code)}: {error}; delete the row if it is not known") from None
        if code in self._evidence:
            before, line = self._evidence[code]
            word = "present" if before else "absent"
            raise VignetteError(f"evidence: {shown(code)} is {word} on line {line} already: delete one of the rows")
        self._evidence[code] = present, number

    def add_decision(self, cells: Mapping[str, str], number: int) -> None:
        """The same for a row of the other file."""
        decision = parse_decision(decision_label(cells["decision"]))
        optional = _optional_fields(cells)
        stated, line = self._optional = self._optional or (optional, number)
        for column in OPTIONAL_COLUMNS:
            if stated[column] != optional[column]:
                raise VignetteError(f"{column}: differs from line {line}: expected the same on each row of a vignette")
        self._decisions.append(decision.label)

    def fields(self) -> dict[str, Any]:
        """Returns the fields as in a vignette file."""
        return {
            "vignette_id": self._vignette_id,
            "present": [code for code, (present, _) in self._evidence.items() if present],
            "absent": [code for code, (present, _) in self._evidence.items() if not present],
            "decisions": self._decisions,
            **(self._optional[0] if self._optional else {}),
        }

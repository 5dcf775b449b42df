"""CSV files with a header line, as spreadsheets write them: comma, semicolon or tab, with or without quotes.

A row is a line: none of our columns can contain a line break, so that a stray quote spoils one line and not the rest of
the file.
"""

import csv
import difflib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.directories import GZIP_MAGIC, UTF_16_MARKS
from schemas.errors import InputError
from schemas.triage import DECISION_LABELS
from trainer.vignettes.source import Line, LineReader
from trainer.vignettes.vignette import VignetteError, shown

DELIMITERS = (",", ";", "\t")
"""Possible delimiters; the header line decides which one it is."""
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")

_ADVICE_UTF_8 = "save the file as CSV UTF-8"
_NOT_ENDED = "unexpected end of data"  # Python's message about a quote that is not closed


class Row(NamedTuple):
    """A row below the header."""

    line: Line
    cells: Sequence[str]  # without surrounding white space; those that are legible if there is a fault
    fault: str | None  # why the row cannot be read


class CsvTable:
    """A CSV file whose header has been read.

    Args:
        reader: the file.
        required: columns that it must have.
        optional: columns that it may have; None means any.

    Raises:
        InputError: the file cannot be read or has another header.
    """

    def __init__(self, reader: LineReader, required: Sequence[str], optional: Sequence[str] | None):
        self.reader = reader
        self._lines = iter(reader)
        if reader.path.suffix.lower() in WORKBOOKS:
            raise InputError(
                f"{reader.path}: a workbook, not a CSV file: export the sheet as CSV UTF-8, and give that file"
            )
        header = next(self._lines, None)
        where = f"{reader.path}: line 1"
        if header is None or header.blank:
            raise InputError(f"{where}: expected a header with {_listed(required)}, found an empty line")
        try:
            self._delimiter = _delimiter(header, required)
            columns = _cells(header, self._delimiter)
        except VignetteError as error:
            raise InputError(f"{where}: {error}") from None
        fault = _header_fault(columns, required, optional)
        if fault:
            raise InputError(f"{where}: {fault}")
        self.columns = tuple(columns)

    def place(self, column: str) -> int | None:
        """Returns the position of a column in a row, None if the file has no such column."""
        return self.columns.index(column) if column in self.columns else None

    def row(self, line: Line) -> Row | None:
        """Returns the row on `line`, None if all its cells are empty."""
        if line.blank:
            return None
        try:
            cells = _cells(line, self._delimiter)
        except VignetteError as error:
            return Row(line, _legible_cells(line, self._delimiter), str(error))
        if len(cells) == len(self.columns):
            return Row(line, cells, None) if any(cells) else None
        if not any(cells):
            return None
        return Row(line, cells, f"expected {len(self.columns)} columns ({_few(self.columns)}), found {len(cells)}")

    def __iter__(self) -> Iterator[Row | None]:
        """Yields the rows below the header, once."""
        return map(self.row, self._lines)


def _delimiter(header: Line, required: Iterable[str]) -> str:
    """Returns the delimiter that separates the required columns, or else the one with the most columns."""
    scores: dict[str, tuple[int, int]] = {}
    faults = []
    for delimiter in DELIMITERS:
        try:
            columns = _cells(header, delimiter)
            scores[delimiter] = sum(name in columns for name in required), len(columns)
        except VignetteError as error:  # such as a closing quote before another delimiter
            faults.append(error)
    best = max(scores, key=scores.__getitem__, default=None)
    if best is None or (faults and not scores[best][0]):
        raise faults[0]
    return best


def _cells(line: Line, delimiter: str) -> list[str]:
    line.require_whole()
    try:
        text = line.content.decode("utf-8")
    except UnicodeDecodeError as error:
        utf_16 = line.number == 1 and line.content.startswith(UTF_16_MARKS)
        if line.number == 1 and line.content.startswith(GZIP_MAGIC):
            raise VignetteError("compressed with gzip: decompress the file first (gunzip)") from None
        fault = "UTF-16 text" if utf_16 else f"not UTF-8 at byte {error.start} of the line"
        raise VignetteError(f"{fault}: {_ADVICE_UTF_8}") from None
    if "\r" in text:
        raise VignetteError("a carriage return inside the line: save the file with line ends LF or CR LF")
    if "\x00" in text:
        raise VignetteError(f"a zero byte inside the line: {_ADVICE_UTF_8}")
    try:
        cells = next(csv.reader([text], delimiter=delimiter, skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        if str(error) == _NOT_ENDED:
            raise VignetteError(
                "a quoted cell does not end on its line: remove the line break inside the cell, or the stray quote"
            ) from None
        raise VignetteError(f"not a row of a CSV file: {error}") from None
    return [cell.strip() for cell in cells]


def _legible_cells(line: Line, delimiter: str) -> list[str]:
    """Returns the cells of a line that cannot be read, except for the last one, which may be incomplete."""
    text = line.text.replace("\x00", "\\x00").replace("\r", "\\r")
    try:
        cells = next(csv.reader([text], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in cells[:-1]]


def _header_fault(columns: Sequence[str], required: Sequence[str], optional: Sequence[str] | None) -> str | None:
    for place, column in enumerate(columns, start=1):
        first = columns.index(column) + 1
        if column and first < place:
            return f"column {place}: {shown(column)} is already the heading of column {first}: name each column once"
    for column in required:
        if column not in columns:
            return (
                f"expected a header with {_listed(required)}, separated by commas, semicolons or tabs; "
                f"{shown(column)} is missing in {_few(columns)}"
            )
    for place, column in enumerate(columns, start=1):
        known = (*required, *(optional or ()))
        if not column:
            return f"column {place} has no heading: add one, or delete the column"
        if optional is not None and column not in known:
            near = difflib.get_close_matches(column.casefold()[:60], known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected {', '.join(known)}: delete the column"
            return f"column {place}: unknown column {shown(column)}: {hint}"
    return None


def _listed(columns: Sequence[str]) -> str:
    return f"the columns {', '.join(columns)}"


def _few(columns: Sequence[str]) -> str:
    names = [shown(column) if not column.isprintable() or len(column) > 60 else column for column in columns[:8]]
    return ", ".join(itertools.chain(names, ["..."] * (len(columns) > 8)))


LIST_SEPARATOR = ";"
"""Separates the items of a cell."""
OPTIONAL_COLUMNS = ("split", "tags")
PRESENCE = {
    **dict.fromkeys(("present", "yes", "ja", "true", "wahr", "1", "1.0", "1,0", "+"), True),
    **dict.fromkeys(("absent", "no", "nein", "false", "falsch", "0", "0.0", "0,0", "-"), False),
}
"""Spellings of presence, in lower case; data frames with gaps turn 1 into 1.0, which some countries write 1,0."""


def parse_presence(cell: str) -> bool:
    """Returns whether a cell says present rather than absent.

    Raises:
        VignetteError: it says neither.
    """
    presence = PRESENCE.get(cell.lower())
    if presence is None:
        raise VignetteError(f"expected present or absent (or 1/0, yes/no, true/false, +/-), found {shown(cell)}")
    return presence


def parse_list(cell: str) -> list[str]:
    """Returns the items of a cell."""
    return [item.strip() for item in cell.split(LIST_SEPARATOR)] if cell else []


def decision_label(cell: str) -> str:
    """Returns the label of a triage decision written in any case; what names none stays as it is."""
    label = cell.capitalize()
    return label if label in DECISION_LABELS else cell


def optional_fields(cells: Mapping[str, str]) -> dict[str, Any]:
    """Returns `split` and `tags` as in a vignette file; empty cells are left out."""
    fields: dict[str, Any] = {}
    if cells.get("split"):
        fields["split"] = cells["split"]
    if cells.get("tags"):
        fields["tags"] = parse_list(cells["tags"])
    return fields


def stated_id(row: Row, place: int) -> str | None:
    """Returns the vignette id in the cell at `place`, None if the row has no readable one."""
    return row.cells[place] or None if place < len(row.cells) else None

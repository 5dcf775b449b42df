"""CSV files with a header line, as spreadsheets write them: comma, semicolon or tab, with or without quotes.

A row is a line: none of our columns can contain a line break, so that a stray quote spoils one line and not the rest of
the file.
"""

import csv
import difflib
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from schemas.errors import SHOWN_CHARACTERS, InputError, shown
from schemas.text_file import Line, lines_of

DELIMITERS = (",", ";", "\t")
"""Possible delimiters; the header line decides which one it is."""
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")

_SEPARATOR = re.compile(rb'"?sep=([,;\t|])"?', re.IGNORECASE)
_NOT_ENDED = "unexpected end of data"  # Python's message about a quote that is not closed


class CsvRow(NamedTuple):
    """A row below the header."""

    line: Line
    cells: Sequence[str]  # without surrounding white space; those that are legible if there is a fault
    fault: str | None  # why the row cannot be read


class CsvTable:
    """A CSV file whose header has been read.

    A line `sep=;` above the header names the delimiter. Columns at the end that are empty throughout are left out. The
    lines begin with the file's first one, and `source` is its name in errors. It must have the columns `required`; it
    may have the `optional` ones, and with `others` any.

    Raises:
        InputError: the file has another header, or is none.
    """

    def __init__(
        self, lines: Iterable[Line], source: object, required: Sequence[str], optional: Sequence[str] = (),
        others: bool = False,
    ):  # fmt: skip
        self.source = source
        self._lines = iter(lines)
        if str(source).lower().endswith(WORKBOOKS):
            raise InputError(f"{source}: a workbook, not a CSV file: export the sheet as CSV UTF-8, and give that file")
        header = next(self._lines, None)
        stated = _SEPARATOR.fullmatch(header.content) if header is not None else None
        header = next(self._lines, None) if stated else header
        self.header = where = f"{source}: line {header.number if header else 1}"
        """Its place, for errors."""
        if header is None or header.blank:
            raise InputError(f"{where}: expected a header with the columns {', '.join(required)}, found an empty line")
        try:
            self._delimiter = stated[1].decode() if stated else _delimiter(header, required)
            columns = _without_empty_end(_cells(header, self._delimiter))
            if fault := _header_fault(columns, required, optional, others):
                raise InputError(fault)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        self.columns = tuple(columns)

    @classmethod
    def of_text(cls, text: str, source: object, required: Sequence[str], *more: Any) -> "CsvTable":
        """Returns the table in a text; the arguments are those of the class."""
        return cls(lines_of(io.BytesIO(text.encode(errors="surrogatepass")), source), source, required, *more)

    def row(self, line: Line) -> CsvRow | None:
        """Returns the row on `line`, None if all its cells are empty."""
        if line.blank:
            return None
        try:
            cells = _cells(line, self._delimiter)
        except InputError as error:
            return CsvRow(line, _legible_cells(line, self._delimiter), str(error))
        if not any(cells):
            return None
        if len(cells) > len(self.columns):
            cells = cells[: len(self.columns)] + _without_empty_end(cells[len(self.columns) :])
        if len(cells) != len(self.columns):
            return CsvRow(
                line, cells, f"expected {len(self.columns)} columns ({_few(self.columns)}), found {len(cells)}"
            )
        return CsvRow(line, cells, None)

    def __iter__(self) -> Iterator[CsvRow | None]:
        """Yields the rows below the header, once."""
        return map(self.row, self._lines)

    def records(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yields the line number of each row that is not blank, and its cells by column.

        Raises:
            InputError: a row cannot be read.
        """
        for row in filter(None, self):
            if row.fault:
                raise InputError(f"{self.source}: line {row.line.number}: {row.fault}")
            yield row.line.number, dict(zip(self.columns, row.cells, strict=True))


def _without_empty_end(cells: list[str]) -> list[str]:
    while cells and not cells[-1]:
        cells = cells[:-1]
    return cells


def _delimiter(header: Line, required: Iterable[str]) -> str:
    """Returns the delimiter that separates the required columns, or else the one with the most columns."""
    scores: dict[str, tuple[int, int]] = {}
    faults = []
    for delimiter in DELIMITERS:
        try:
            columns = _cells(header, delimiter)
            scores[delimiter] = sum(name in columns for name in required), len(columns)
        except InputError as error:  # such as a closing quote before another delimiter
            faults.append(error)
    best = max(scores, key=scores.__getitem__, default=None)
    if best is None or (faults and not scores[best][0]):
        raise faults[0]
    return best


def _cells(line: Line, delimiter: str) -> list[str]:
    text = line.decoded()
    if "\r" in text:
        raise InputError("a carriage return inside the line: save the file with line ends LF or CR LF")
    if "\x00" in text:
        raise InputError("a zero byte inside the line: save the file as CSV UTF-8")
    try:
        cells = next(csv.reader([text], delimiter=delimiter, skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        if str(error) == _NOT_ENDED:
            raise InputError(
                "a quoted cell does not end on its line: remove the line break inside the cell, or the stray quote"
            ) from None
        raise InputError(f"not a row of a CSV file: {error}") from None
    return [cell.strip() for cell in cells]


def _legible_cells(line: Line, delimiter: str) -> list[str]:
    """Returns the cells of a line that cannot be read, except for the last one, which may be incomplete."""
    text = line.text.replace("\x00", "\\x00").replace("\r", "\\r")
    try:
        cells = next(csv.reader([text], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in cells[:-1]]


def _header_fault(columns: Sequence[str], required: Sequence[str], optional: Sequence[str], others: bool) -> str | None:
    for place, column in enumerate(columns, start=1):
        first = columns.index(column) + 1
        if column and first < place:
            return f"column {place}: {shown(column)} is already the heading of column {first}: name each column once"
    for column in required:
        if column not in columns:
            return (
                f"expected a header with the columns {', '.join(required)}, separated by commas, semicolons or tabs; "
                f"{shown(column)} is missing in {_few(columns)}"
            )
    known = (*required, *optional)
    for place, column in enumerate(columns, start=1):
        if not column:
            return f"column {place} has no heading: add one, or delete the column"
        if column not in known and not others:
            near = difflib.get_close_matches(column.casefold()[:SHOWN_CHARACTERS], known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected {', '.join(known)}: delete the column"
            return f"column {place}: unknown column {shown(column)}: {hint}"
    return None


def _few(columns: Sequence[str]) -> str:
    names = [shown(column) if not column.isprintable() or len(column) > 60 else column for column in columns[:8]]
    return ", ".join(itertools.chain(names, ["..."] * (len(columns) > 8)))

"""The rows of a data frame, as vignettes and cases have their fields."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from schemas.errors import InputError, shown
from schemas.evidence import Vocabulary
from trainer.data.csv_files import decision_label, parse_list, read_evidence
from trainer.data.derived_vocabulary import malformed_code

ID, PRESENT, ABSENT = "vignette_id", "present", "absent"


class FrameRow(NamedTuple):
    """A row: its label in the index, what it says, {} where it is empty as Excel's last row often is, and any fault."""

    label: str
    fields: dict[str, Any]
    fault: str = ""


class Frame:
    """A frame with codes in lists, if it has a column `present` or `absent`, or with a column for each of `codes`.

    Args:
        name: of the argument, for errors.
        known: columns that are no evidence.
        ignored: columns that are not read.

    Raises:
        InputError: it is no frame, a column has no name of its own, or one to leave out is not there.
    """

    def __init__(self, name: str, frame: pd.DataFrame, known: Collection[str], ignored: Iterable[str] | None = ()):
        if not isinstance(frame, pd.DataFrame):
            raise InputError(f"{name}: expected a data frame, with codes as its columns, found {type(frame).__name__}")
        for column in ignored or ():
            if column not in frame:
                raise InputError(f"ignore_columns: {name} has no column {shown(column)}")
            frame = frame.drop(columns=column)
        for column, again in zip(frame.columns, frame.columns.duplicated(), strict=True):
            if again or not isinstance(column, str):
                raise InputError(f"{name}: column {_plain(column)!r}: expected texts as names, each once")
        self._name, self._frame, self._known = name, frame, known
        self.lists = not {PRESENT, ABSENT}.isdisjoint(frame.columns)
        self.codes = tuple(each for each in frame.columns if not (self.lists or each in known))
        self._evidence = frozenset(self.codes)

    def check_columns(self, vocabulary: Vocabulary | None) -> None:
        """Raises an InputError if a column is neither known nor evidence of the vocabulary, or, without one, of any."""
        for column in self._frame.columns.difference([*self._known], sort=False):
            fault = f"expected {', '.join(self._known)}" if self.lists else malformed_code(column)
            if column.lower() in self._known:
                fault = f"write {column.lower()!r}"
            elif not (self.lists or vocabulary is None or column in vocabulary or column in vocabulary.bands.units):
                fault = vocabulary.unknown_message(column)
            if fault:
                hint = "leave out columns that are not evidence with ignore_columns"
                raise InputError(f"{self._name}: column {column!r}: {fault}; {hint}")

    def rows(self, measures: Collection[str] = ()) -> Iterator[FrameRow]:
        """Yields the rows; columns of evidence that are `measures` hold numbers."""
        columns = [(name, column.array) for name, column in self._frame.items()]
        others = [name for name in self._frame.columns if name not in self._evidence]
        for number, stated in enumerate(self._frame.notna().to_numpy()):
            cells = {columns[place][0]: _plain(columns[place][1][number]) for place in np.flatnonzero(stated)}
            cells = {name: cell for name, cell in cells.items() if cell not in (None, [])}
            label = str(_plain(self._frame.index[number]))
            fields = {PRESENT: [], ABSENT: [], ID: label, **{name: cells.get(name) for name in others}}
            try:
                yield FrameRow(label, fields | self._read(cells, measures) if cells else {})
            except InputError as error:
                yield FrameRow(label, fields, str(error))

    def _read(self, cells: Mapping[str, Any], measures: Collection[str]) -> dict[str, list[str]]:
        """Returns the fields of a row's cells that are written in another way in frames."""
        texts = {name: cells[name] for name in ("decisions", "tags") if isinstance(cells.get(name), str)}
        read = {name: parse_list(text) for name, text in texts.items()}
        if "decisions" in read:
            read["decisions"] = [*map(decision_label, read["decisions"])]
        evidence = {code: str(cell) for code, cell in cells.items() if code in self._evidence}
        return read if self.lists else {**read, **read_evidence(evidence, measures)}


def _plain(value: Any) -> Any:
    """Returns a cell as JSON has it: None for a missing one or an empty text, a set in alphabetical order."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, Set):
        value = sorted(value, key=str)
    if isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
        return [_plain(each) for each in value]
    return None if pd.isna(value) else value

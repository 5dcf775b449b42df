"""Groups the lines of a vignette, which may be anywhere in a file, on disk, so that memory use is constant."""

import itertools
import operator
import pathlib
import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trainer.vignettes.source import Line

_ROWS_AT_ONCE = 2_000


class GroupedLine(NamedTuple):
    """A line, and the number of the file that it is from."""

    source: int
    line: Line


class RowGroups:
    """Takes lines with the id they belong to, and returns them group by group.

    Groups come in the order of their first lines, and the lines of a group in the order in which they were added.

    Args:
        path: a new file for the database.
        files: the name of each source.
    """

    def __init__(self, path: pathlib.Path, files: tuple[str, ...]):
        self._files = files
        self._groups = 0  # so far
        self._sequence = 0  # number of lines so far
        self._last: tuple[str | None, int] = (None, -1)
        self._pending: list[tuple[int, int, int, int, int, int, bytes]] = []
        self._database = sqlite3.connect(path, isolation_level=None)
        # The file is temporary: nothing needs to survive a crash, and there is a single transaction.
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("BEGIN")
        self._database.execute("CREATE TABLE ids (id TEXT PRIMARY KEY, grouped INTEGER) WITHOUT ROWID")
        self._database.execute(
            "CREATE TABLE lines (grouped INTEGER, sequence INTEGER, source INTEGER, number INTEGER, start INTEGER, "
            "length INTEGER, content BLOB, PRIMARY KEY (grouped, sequence)) WITHOUT ROWID"
        )

    def add(self, name: str | None, source: int, line: Line) -> None:
        """Adds a line to the group with the id `name`; with None, to a new group."""
        if name is None or name != self._last[0]:
            self._last = name, self._new_group() if name is None else self._group(name)
        row = (self._last[1], self._sequence, source, line.number, line.offset, line.length, line.content)
        self._sequence += 1
        self._pending.append(row)
        if len(self._pending) == _ROWS_AT_ONCE:
            self._flush()

    def __iter__(self) -> Iterator[Iterable[GroupedLine]]:
        """Yields the lines of each group."""
        self._flush()
        rows = self._database.execute(
            "SELECT grouped, source, number, start, length, content FROM lines ORDER BY grouped, sequence"
        )
        for _, group in itertools.groupby(rows, operator.itemgetter(0)):
            yield (GroupedLine(row[1], Line(self._files[row[1]], *row[2:])) for row in group)

    def close(self) -> None:
        """Closes the database; the file stays."""
        self._database.close()

    def _new_group(self) -> int:
        self._groups += 1
        return self._groups - 1

    def _group(self, name: str) -> int:
        known = self._database.execute("SELECT grouped FROM ids WHERE id = ?", (name,)).fetchone()
        if known:
            return known[0]
        group = self._new_group()
        self._database.execute("INSERT INTO ids VALUES (?, ?)", (name, group))
        return group

    def _flush(self) -> None:
        self._database.executemany("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?, ?)", self._pending)
        self._pending.clear()

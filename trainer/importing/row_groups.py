"""Groups the lines of a vignette, which may be anywhere in a file."""

import array
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from trainer.vignettes.source import Line


class GroupedLine(NamedTuple):
    """A line, and the number of the file that it is from."""

    source: int
    line: Line


class RowGroups:
    """Takes lines with the id they belong to, and returns them group by group.

    Groups come in the order of their first lines, and the lines of a group in the order in which they were added. A
    line takes its bytes and 48 more, as Python's objects would take some 300.

    Args:
        files: the name of each source.
    """

    def __init__(self, files: tuple[str, ...]):
        self._files = files
        self._ids: dict[str, int] = {}  # their groups
        self._count = 0  # of groups
        self._groups = array.array("q")  # of each line
        self._lines = array.array("q")  # five numbers for each line: source, number, offset, length, end of its content
        self._content = bytearray()

    def add(self, name: str | None, source: int, line: Line) -> None:
        """Adds a line to the group with the id `name`; with None, to a new group."""
        group = self._count if name is None else self._ids.setdefault(name, self._count)
        self._count = max(self._count, group + 1)
        self._groups.append(group)
        self._content += line.content
        self._lines.extend((source, line.number, line.offset, line.length, len(self._content)))

    def __iter__(self) -> Iterator[Iterable[GroupedLine]]:
        """Yields the lines of each group."""
        order = np.argsort(np.asarray(self._groups), kind="stable")
        for _, rows in itertools.groupby(order, self._groups.__getitem__):
            yield map(self._line, rows)

    def _line(self, row: int) -> GroupedLine:
        source, number, offset, length, end = self._lines[5 * row : 5 * row + 5]
        start = self._lines[5 * row - 1] if row else 0
        return GroupedLine(source, Line(self._files[source], number, offset, length, bytes(self._content[start:end])))

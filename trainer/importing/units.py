"""Units of the work of `triage prepare --runner`: an input file, or a part of one from line end to line end."""

import dataclasses
import hashlib
import pathlib
import tempfile
from collections.abc import Iterator

from schemas.beam import files
from schemas.errors import InputError
from trainer.vignettes.source import MAX_LINE_BYTES, ZIP_MAGIC, Line, LineReader, lines_of

UNIT_BYTES = 16 * 2**20
"""Least size of a unit, except for the last one of a file."""


@dataclasses.dataclass(frozen=True)
class InputFile:
    """An input file."""

    place: int  # among the input files
    location: str  # path or address, as every worker understands it
    name: str  # as the user gave it


@dataclasses.dataclass(frozen=True)
class Unit:
    """Lines of an input file."""

    file: InputFile
    sha256: str  # of the file, hexadecimal
    lines: int = 0  # before the unit
    start: int = 0  # bytes before the unit
    end: int | None = None  # bytes before its end; None for an archive, which is one unit

    @property
    def name(self) -> str:
        """Names sort as the units do in the input."""
        return f"{self.file.place:09d}-{self.start:015d}"


def units_of(file: InputFile) -> Iterator[Unit]:
    """Yields the units of a file, for which the whole file is read.

    Raises:
        OSError: it cannot be read.
    """
    digest, archive = hashlib.sha256(), False
    parts: list[tuple[int, int, int]] = []  # lines before the unit, start, end
    number = start = lines = offset = 0
    with files.opened(file.location) as stream:
        while piece := stream.read(MAX_LINE_BYTES):
            archive = archive or (not offset and piece.startswith(ZIP_MAGIC))
            digest.update(piece)
            done = 0
            while (last := piece.find(b"\n", max(done, start + UNIT_BYTES - 1 - offset))) >= 0:
                lines += piece.count(b"\n", done, last + 1)
                done = last + 1
                parts.append((number, start, offset + done))
                number, start = lines, offset + done
            lines += piece.count(b"\n", done)
            offset += len(piece)
    if archive:
        yield Unit(file, digest.hexdigest())
        return
    if start < offset or not parts:
        parts.append((number, start, offset))
    for part in parts:
        yield Unit(file, digest.hexdigest(), *part)


class UnitReader(LineReader):
    """Reads the lines of a unit, as `LineReader` does those of a file.

    Args:
        unit: the unit.
        headed: whether the first line of the file comes first in every unit.
    """

    def __init__(self, unit: Unit, headed: bool):
        super().__init__(pathlib.Path(unit.file.name))
        self._unit = unit
        self._headed = headed

    def __iter__(self) -> Iterator[Line]:
        """Yields the lines.

        Raises:
            InputError: the file is an archive that cannot be read.
            OSError: the file cannot be read.
        """
        file, unit = self._unit.file, self._unit
        if unit.end is None:
            yield from self._lines_of_archive()
            return
        with files.opened(file.location) as stream:
            if self._headed and unit.start:
                yield next(lines_of(stream, file.name))
                stream.seek(unit.start)
            elif unit.start:
                stream.seek(unit.start)
            yield from lines_of(stream, file.name, before=(unit.lines, unit.start), end=unit.end)

    def _lines_of_archive(self) -> Iterator[Line]:
        file = self._unit.file
        with tempfile.TemporaryDirectory(prefix="triage-") as folder:
            copy = pathlib.Path(folder) / self.path.name
            files.fetch(file.location, copy)
            try:
                for line in LineReader(copy):
                    yield line._replace(file=file.name)
            except InputError as error:
                raise InputError(str(error).replace(str(copy), file.name)) from error

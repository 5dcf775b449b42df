"""Reads input files line by line in bounded memory; each line is a vignette, a reject or blank.

All rejects go into a file, the first few to the screen.
"""

import json
import pathlib
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from schemas.errors import InputError, first_line
from schemas.text_file import Line, lines_of
from trainer.data.vignette import Vignette, VignetteError
from triage_runtime.storage import arrays_file

_ZIP_MAGIC = b"PK\x03\x04"

Read = TypeVar("Read")


class Accepted(NamedTuple):
    """A line that holds a vignette."""

    line: Line
    vignette: Vignette


class Rejected(NamedTuple):
    """A line that does not hold a vignette."""

    line: Line
    vignette_id: str | None
    reason: str


Outcome = Accepted | Rejected | str | None  # a text: what is left out, in the plural; None: a blank line


class LineReader:
    """Reads the lines of a file, or of the one file inside a zip archive."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    def __iter__(self) -> Iterator[Line]:
        """Yields the lines.

        Raises:
            InputError: the file cannot be read, or is an archive without exactly one file.
        """
        try:
            with self.path.open("rb") as stream:
                is_archive = stream.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC
            if is_archive:
                with zipfile.ZipFile(self.path) as archive, archive.open(self._member(archive)) as stream:
                    yield from lines_of(stream, self.path)
            else:
                with self.path.open("rb") as stream:
                    yield from lines_of(stream, self.path)
        except InputError:
            raise
        except OSError as error:
            raise InputError(f"{self.path}: cannot read: {error.strerror or error}") from error
        except arrays_file.DAMAGE as error:  # encrypted, or of an unknown compression, too
            raise InputError(f"{self.path}: cannot read the archive: {first_line(error)}") from error

    def _member(self, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
        members = [m for m in archive.infolist() if not m.is_dir() and not m.filename.startswith("__MACOSX/")]
        if len(members) != 1:
            raise InputError(f"{self.path}: expected one file inside the archive, found {len(members)}")
        return members[0]


def check_kind(path: pathlib.Path) -> None:
    """Checks that a file can be a vignette file (JSON Lines), by its first line.

    Raises:
        InputError: it cannot be read, or is of another kind.
    """
    first = next((line.content.strip() for line in LineReader(path) if not line.blank), b"")
    if first.startswith(b"["):
        raise InputError(
            f"{path}: a JSON array, not JSON Lines: write one object per line, without brackets (in pandas "
            "to_json(path, orient='records', lines=True))"
        )
    if not first.startswith(b"{") and b"vignette_id" in first:
        raise InputError(f"{path}: a CSV file, not JSON Lines: give --format csv-wide or --format csv-long")


def read_each(reader: LineReader, read: Callable[[Line], Read]) -> Iterator[Read | Rejected | None]:
    """Yields what `read` makes of each line, a reject where it raises an InputError, and None for a blank line.

    Raises:
        InputError: the file cannot be read.
    """
    for line in reader:
        if line.blank:
            yield None
            continue
        try:
            yield read(line)
        except InputError as error:
            yield Rejected(line, error.vignette_id if isinstance(error, VignetteError) else None, str(error))


BLANK_LINES = "blank lines"
SHOWN = 20
"""Reasons that are shown, each once; the file has all rejects."""


class RejectLog:
    """Writes each rejected line to a JSON Lines file, and the first line of each of `SHOWN` reasons to `show`.

    At the end it shows how often each reason was met that was met again. The file is deleted if nothing was rejected.
    """

    def __init__(self, path: pathlib.Path, show: Callable[[str], object]):
        self.path = path
        self.count = 0
        self._show = show
        self._reasons: Counter[str] = Counter()  # those that are shown
        # A lone surrogate cannot be encoded as UTF-8; with a backslash it is its own JSON escape.
        self._file = path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")

    def __enter__(self) -> "RejectLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
        if not self.count:
            self.path.unlink()
        for reason, count in self._reasons.items():
            if count > 1:
                self._show(f"... and {count - 1:,} more: {reason}")
        others = self.count - self._reasons.total()
        if others:
            self._show(f"... and {others:,} more rejected lines, for other reasons")

    def add(self, rejected: Rejected) -> None:
        """Adds one line."""
        line = rejected.line
        record = {
            "file": line.file,
            "line": line.number,
            "vignette_id": rejected.vignette_id,
            "reason": rejected.reason,
            "text": line.text,
        }
        self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
        self.count += 1
        if rejected.reason not in self._reasons:
            if len(self._reasons) == SHOWN:
                return
            self._show(_shown(record))
        self._reasons[rejected.reason] += 1


def accept(outcomes: Iterable[Outcome], log: RejectLog) -> tuple[list[Vignette], Counter[str]]:
    """Returns the vignettes with new ids and how much was left out of each kind, and logs the rest."""
    vignettes: list[Vignette] = []
    places: dict[str, str] = {}  # where each id was first used
    left_out = Counter({BLANK_LINES: 0})
    for outcome in outcomes:
        if isinstance(outcome, Accepted):
            name = outcome.vignette.vignette_id
            if name not in places:
                places[name] = f"{outcome.line.file}:{outcome.line.number}"
                vignettes.append(outcome.vignette)
                continue
            outcome = Rejected(outcome.line, name, f"duplicate vignette_id: first used in {places[name]}")
        if isinstance(outcome, Rejected):
            log.add(outcome)
        else:
            left_out[outcome or BLANK_LINES] += 1
    return vignettes, left_out


def _shown(record: Mapping[str, Any]) -> str:
    return f"{record['file']}:{record['line']}: {_vignette(record['vignette_id'])}: {record['reason']}"


def _vignette(vignette_id: str | None) -> str:
    if vignette_id is None:
        return "no vignette id"
    return f"vignette {vignette_id if vignette_id.isprintable() and len(vignette_id) < 100 else repr(vignette_id[:99])}"

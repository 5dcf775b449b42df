"""Reads input files line by line in bounded memory; each line is a vignette, a reject or blank.

All rejects go into a file, the first few to the screen.
"""

import hashlib
import json
import pathlib
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import IO, Any, NamedTuple, TypeVar

from schemas.directories import GZIP_MAGIC, UTF_16_MARKS
from schemas.errors import InputError
from trainer.vignettes.vignette import Vignette, VignetteError

MAX_LINE_BYTES = 1 << 20
PREFIX_BYTES = 1_000
"""How much of an overlong line goes into the list of rejects."""

_ZIP_MAGIC = b"PK\x03\x04"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_END = b"\r\n"

Read = TypeVar("Read")


class Line(NamedTuple):
    """One line of a file, without its end."""

    file: str
    number: int  # from 1
    offset: int  # bytes before it in the file
    length: int  # bytes
    content: bytes  # the whole line, or its first PREFIX_BYTES if it is longer than MAX_LINE_BYTES

    @property
    def blank(self) -> bool:
        """Whether the line is empty or white space."""
        return not self.content.strip() and self.length == len(self.content)

    @property
    def text(self) -> str:
        """The content as text; bytes that are not UTF-8 become a backslash, x and two digits."""
        return self.content.decode("utf-8", errors="backslashreplace")

    def require_whole(self) -> None:
        """Raises a VignetteError if the line is too long to be read."""
        if self.length > len(self.content):
            raise VignetteError(
                f"the line is longer than {MAX_LINE_BYTES:,} bytes: it has {self.length:,}, starting at byte "
                f"{self.offset:,} of the file; the list of rejects holds the first {PREFIX_BYTES:,}"
            )


class Accepted(NamedTuple):
    """A line that holds a vignette."""

    line: Line
    vignette: Vignette


class Rejected(NamedTuple):
    """A line that does not hold a vignette."""

    line: Line
    vignette_id: str | None
    reason: str


Outcome = Accepted | Rejected | None  # None: a blank line


class LineReader:
    """Reads the lines of a file, or of the one file inside a zip archive.

    A byte order mark at the start is skipped; lines end with LF or CR LF. At most `MAX_LINE_BYTES` of a line are in
    memory.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Hexadecimal digest of the file on the disk, after all lines have been read."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Line]:
        """Yields the lines.

        Raises:
            InputError: the file cannot be read, or is an archive without exactly one file.
        """
        self._hash = hashlib.sha256()
        try:
            if self.path.is_file() and _is_archive(self.path):  # a pipe can only be read once
                self._hash_file()
                with zipfile.ZipFile(self.path) as archive, archive.open(self._member(archive)) as stream:
                    yield from _lines(stream, str(self.path))
            else:
                with self.path.open("rb") as stream:
                    yield from _lines(stream, str(self.path), self._hash.update)
        except OSError as error:
            raise InputError(f"{self.path}: cannot read: {error.strerror or error}") from error
        # Damaged, encrypted, or of an unknown compression.
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
            raise InputError(f"{self.path}: cannot read the archive: {error}") from error

    def _hash_file(self) -> None:
        with self.path.open("rb") as stream:
            while chunk := stream.read(MAX_LINE_BYTES):
                self._hash.update(chunk)

    def _member(self, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
        members = [m for m in archive.infolist() if not m.is_dir() and not m.filename.startswith("__MACOSX/")]
        if len(members) != 1:
            raise InputError(f"{self.path}: expected one file inside the archive, found {len(members)}")
        return members[0]


def _lines(stream: IO[bytes], file: str, note: Callable[[bytes], object] = lambda piece: None) -> Iterator[Line]:
    """Yields the lines of an open file.

    Args:
        stream: at its start.
        file: its name, for the lines.
        note: is given all that is read, piece by piece.
    """
    number, offset = 0, 0
    longest = len(_BYTE_ORDER_MARK) + MAX_LINE_BYTES + len(_LINE_END)
    while first := stream.readline(longest):
        number += 1
        read, chunk, tail = 0, first, b""
        while chunk:
            read += len(chunk)
            tail = (tail + chunk)[-len(_LINE_END) :]
            note(chunk)
            chunk = b"" if tail.endswith(b"\n") else stream.readline(longest)
        skipped = len(_BYTE_ORDER_MARK) if number == 1 and first.startswith(_BYTE_ORDER_MARK) else 0
        length = read - skipped - (len(_LINE_END) if tail == _LINE_END else tail.endswith(b"\n"))
        kept = length if length <= MAX_LINE_BYTES else PREFIX_BYTES
        yield Line(file, number, offset + skipped, length, first[skipped : skipped + kept])
        offset += read


def check_kind(path: pathlib.Path) -> None:
    """Checks that a file can be a vignette file (JSON Lines), by its first bytes.

    Raises:
        InputError: it cannot be read, or is of another kind.
    """
    if not path.is_file():  # a pipe can only be read once
        return
    try:
        with path.open("rb") as stream:
            start = stream.read(PREFIX_BYTES).removeprefix(_BYTE_ORDER_MARK)
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    if start.startswith(_ZIP_MAGIC):  # in which a line may stand as it is
        return
    first = start.lstrip().partition(b"\n")[0].strip()
    if start.startswith(GZIP_MAGIC):
        raise InputError(f"{path}: compressed with gzip: decompress it first (gunzip), or give a zip archive")
    if start.startswith(UTF_16_MARKS):
        raise InputError(f"{path}: UTF-16 text: save the file as UTF-8")
    if first.startswith(b"["):
        raise InputError(
            f"{path}: a JSON array, not JSON Lines: write one object per line, without brackets (in pandas "
            "to_json(path, orient='records', lines=True))"
        )
    if not first.startswith(b"{") and b"vignette_id" in first:
        raise InputError(f"{path}: a CSV file, not JSON Lines: give --format csv-wide or --format csv-long")


def read_each(reader: LineReader, read: Callable[[Line], Read]) -> Iterator[Read | Rejected | None]:
    """Yields what `read` makes of each line, a reject where it raises a VignetteError, and None for a blank line.

    Raises:
        InputError: the file cannot be read.
    """
    for line in reader:
        if line.blank:
            yield None
            continue
        try:
            line.require_whole()
            yield read(line)
        except VignetteError as error:
            yield Rejected(line, error.vignette_id, str(error))


def _is_archive(path: pathlib.Path) -> bool:
    """Whether a file is a zip archive, by its first bytes."""
    with path.open("rb") as stream:
        return stream.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC


SHOWN = 20
"""Reasons that are shown, each once; the file has all rejects."""


class RejectLog:
    """Writes each rejected line to a JSON Lines file, and the first line of each of `SHOWN` reasons to `show`.

    At the end it shows how often each reason was met that was met again.

    Args:
        path: the file; it is deleted if nothing was rejected.
        show: takes one line of text.
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


def _shown(record: Mapping[str, Any]) -> str:
    return f"{record['file']}:{record['line']}: {_vignette(record['vignette_id'])}: {record['reason']}"


def _vignette(vignette_id: str | None) -> str:
    if vignette_id is None:
        return "no vignette id"
    return f"vignette {vignette_id if vignette_id.isprintable() and len(vignette_id) < 100 else repr(vignette_id[:99])}"

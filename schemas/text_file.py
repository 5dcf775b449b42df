"""Text files that users name, whole or line by line, and the error about one that cannot be read."""

import pathlib
import sys
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from schemas.directories import GZIP_MAGIC, UTF_16_MARKS
from schemas.errors import InputError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_LINE_BYTES = 1 << 20
PREFIX_BYTES = 1_000
"""How much of an overlong line is kept."""
_LINE_END = b"\r\n"


def read_text(path: pathlib.Path, option: str = "") -> str:
    """Returns the text of a UTF-8 file, without a byte order mark.

    Errors name the `option` by which the user named it, such as "--config".

    Raises:
        InputError: it cannot be read, or is not UTF-8. The cause has nothing of its content, which may be secret.
    """
    named = f"{option} {path}".lstrip()
    try:
        return path.read_text(encoding="utf-8").removeprefix("\ufeff")
    except OSError as error:
        raise InputError(f"{named}: cannot read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{named}: byte {error.start}: not UTF-8") from None


def parse_toml(text: str, source: object) -> dict[str, Any]:
    """Returns what a TOML file says; `source` is its name in errors.

    Raises:
        InputError: it is no TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: not TOML: {error}") from error


class Line(NamedTuple):
    """One line of a file, without its end."""

    file: str
    number: int  # from 1
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

    def decoded(self) -> str:
        """Returns the content as text.

        Raises:
            InputError: the line is too long, or not UTF-8.
        """
        if self.length > len(self.content):
            raise InputError(f"the line is longer than {MAX_LINE_BYTES:,} bytes: it has {self.length:,}")
        try:
            return self.content.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"not UTF-8 at byte {error.start} of the line: save the file as UTF-8") from None


def lines_of(stream: IO[bytes], file: object) -> Iterator[Line]:
    """Yields the lines of an open file, its name in each, which end with LF or CR LF; a byte order mark is skipped.

    At most `MAX_LINE_BYTES` of a line are in memory.

    Raises:
        InputError: the file is compressed with gzip, or UTF-16.
    """
    number = 0
    longest = len(BYTE_ORDER_MARK) + MAX_LINE_BYTES + len(_LINE_END)
    while first := stream.readline(longest):
        number += 1
        if number == 1 and first.startswith(GZIP_MAGIC):
            raise InputError(f"{file}: compressed with gzip: decompress it first (gunzip)")
        if number == 1 and first.startswith(UTF_16_MARKS):
            raise InputError(f"{file}: UTF-16 text: save the file as UTF-8")
        read, chunk, tail = 0, first, b""
        while chunk:
            read += len(chunk)
            tail = (tail + chunk)[-len(_LINE_END) :]
            chunk = b"" if tail.endswith(b"\n") else stream.readline(longest)
        skipped = len(BYTE_ORDER_MARK) if number == 1 and first.startswith(BYTE_ORDER_MARK) else 0
        length = read - skipped - (len(_LINE_END) if tail == _LINE_END else tail.endswith(b"\n"))
        kept = length if length <= MAX_LINE_BYTES else PREFIX_BYTES
        yield Line(str(file), number, length, first[skipped : skipped + kept])

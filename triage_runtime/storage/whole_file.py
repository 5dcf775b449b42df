"""Writing a file so that a kill leaves either the old content or the new one, and reading a whole JSON file."""

import contextlib
import errno
import os
import pathlib
from collections.abc import Iterator
from typing import IO, Any

from schemas.errors import InputError
from schemas.text_file import read_text
from triage_runtime.case import parse_object

UNFINISHED = ".new."
"""Prefix of the name of a file that is still being written."""


def check_regular(path: pathlib.Path) -> None:
    """Checks that nothing but a file may be replaced or removed at `path`: root could do so to a device.

    Raises:
        OSError: something else is there, such as a directory, a device or a pipe.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file")


@contextlib.contextmanager
def path_replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields the path of a new file, which replaces `path` when the block ends.

    For libraries that write to a path; the new file lies beside `path`, and its name ends as that one's does. If the
    block raises, `path` is left alone.

    Raises:
        OSError: the file cannot be written, or `path` is no regular file.
    """
    check_regular(path)
    unfinished = path.with_name(f"{UNFINISHED}{path.name}")
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        error.filename = error.filename or str(path)  # none is set where a disk is full
        raise
    finally:
        unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing(path: pathlib.Path, binary: bool = False) -> Iterator[IO[Any]]:
    """Yields an open file, UTF-8 text or binary, which is on the disk and replaces `path` when the block ends.

    If the block raises, `path` is left alone. For errors, see `path_replacing`.
    """
    with path_replacing(path) as unfinished:
        file: IO[Any]
        with open(unfinished, "wb" if binary else "w", encoding=None if binary else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def removed_unless_written(path: pathlib.Path) -> Iterator[None]:
    """Removes the file at `path` if the block, which writes it, raises an OSError: no half of it is to look whole.

    For destinations that may also be a pipe or a device, such as /dev/stdout, which stay.
    """
    try:
        yield
    except OSError:
        if path.is_file() and not path.is_symlink():
            with contextlib.suppress(OSError):
                path.unlink()
        raise


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Returns the JSON object that a file holds.

    Raises:
        InputError: the file cannot be read, or holds no JSON object.
    """
    text = read_text(path)
    try:
        return parse_object(text)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None

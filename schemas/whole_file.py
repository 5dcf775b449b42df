"""Writing a file so that a kill leaves either the old content or the new one."""

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import IO, Any

UNFINISHED = ".new"
"""Behind the name of a file that is being written."""


@contextlib.contextmanager
def replacing(path: pathlib.Path, binary: bool = False) -> Iterator[IO[Any]]:
    """Yields a file to write, as UTF-8 text or bytes, which takes the place of `path` once it is whole on the disk.

    Where the block raises, `path` stays as it is.

    Raises:
        OSError: it cannot be written.
    """
    temporary = path.with_name(path.name + UNFINISHED)
    file: IO[Any]
    with open(temporary, "wb" if binary else "w", encoding=None if binary else "utf-8") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)

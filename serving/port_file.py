"""The file that tells which port the server got: who started it waits for the file, and reads it."""

import os
import pathlib

from schemas.errors import InputError


def write(path: pathlib.Path, port: int) -> None:
    """Writes `port` and a line feed; a reader sees the whole file or none.

    Raises:
        InputError: it cannot be written.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(f"{port}\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise InputError(f"--port-file {path}: cannot write: {error.strerror or error}") from error

"""Files of named arrays (npz), and the errors that damaged ones raise."""

import contextlib
import lzma
import pathlib
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from schemas.errors import InputError, first_line
from triage_runtime.storage import whole_file

# What NumPy's and zipfile's readers raise on files with other bytes than were written, and a lookup of what is missing.
DAMAGE = (
    OSError, ValueError, KeyError, EOFError, TypeError, RuntimeError, MemoryError, struct.error, zlib.error,
    zipfile.BadZipFile, lzma.LZMAError,
)  # fmt: skip


def write(path: pathlib.Path, arrays: Mapping[str, Any]) -> None:
    """Writes arrays under their names, so that a kill leaves no file or a whole one.

    Raises:
        OSError: the file cannot be written.
    """
    with whole_file.replacing(path, binary=True) as file:
        np.savez_compressed(file, **arrays)


@contextlib.contextmanager
def damage_named(path: pathlib.Path, advice: str) -> Iterator[None]:
    """Says in an InputError that the file, which the block reads, is damaged or missing, and what to do."""
    try:
        yield
    except DAMAGE as error:
        raise InputError(f"{path}: damaged or missing ({first_line(error)}): {advice}") from error


def read(path: pathlib.Path) -> dict[str, Any]:
    """Returns the arrays that `write` wrote.

    Raises:
        OSError, ValueError and others: those in `DAMAGE`.
    """
    file = np.load(path, allow_pickle=False)
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise ValueError("one array alone")
    with file:
        arrays = dict(file)
    if others := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
        raise ValueError(f"no arrays: {', '.join(others)}")
    return arrays

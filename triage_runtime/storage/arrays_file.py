"""Files of named arrays (npz), and the errors that damaged ones raise."""

import lzma
import pathlib
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

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

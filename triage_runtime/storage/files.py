"""Whole files through Apache Beam's file systems: on this machine, or at an address such as gs://bucket/folder/file.

For workers of a pipeline, which reach all stores that Beam knows, with the credentials of its options; a command that
works on copies goes through `triage_runtime.storage.staging`.

All functions raise an OSError that names the file where it cannot be read or written, whatever the file system raises.
"""

import contextlib
import io
import pathlib
import posixpath
import shutil
import uuid
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

from schemas.errors import InputError, first_line
from triage_runtime.storage import locations

_PIECE = 2**20
_PATTERN = "*?["


class Entry(NamedTuple):
    """A file of a folder."""

    location: str
    size: int  # bytes
    modified: float  # seconds


def absolute(location: str) -> str:
    """Returns an address without a slash at its end, or a path as other processes understand it.

    Raises:
        InputError: Beam would take it for a pattern.
    """
    if any(character in location for character in _PATTERN):
        raise InputError(f"{location}: with --runner no path can have any of the characters {_PATTERN}")
    return location.rstrip("/") if locations.is_remote(location) else str(pathlib.Path(location).resolve())


def entries(pattern: str) -> list[Entry]:
    """Returns the files of a pattern by location; in it * stands for a part of a name, ** for several of a path."""
    from apache_beam.io.filesystems import FileSystems

    with _faults(pattern):
        [matched] = FileSystems.match([pattern])
        metadata = matched.metadata_list
    return sorted(Entry(each.path, each.size_in_bytes, each.last_updated_in_seconds) for each in metadata)


def fetch(location: str, path: pathlib.Path) -> None:
    """Copies a file to a path of this machine, whose folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as copy, opened(location) as file:
        shutil.copyfileobj(file, copy, _PIECE)


@contextlib.contextmanager
def opened(location: str, piece: int = _PIECE) -> Iterator[IO[bytes]]:
    """Yields a file, open for reading, as bytes, of which `piece` are read at a time."""
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    with (
        _faults(location),
        FileSystems.open(location, compression_type=CompressionTypes.UNCOMPRESSED) as file,
        io.BufferedReader(file, piece) as buffered,  # some stores' files read lines byte by byte
    ):
        yield buffered


def fetch_folder(location: str, path: pathlib.Path) -> None:
    """Copies a folder with all that is below it to a path of this machine."""
    for entry in entries(f"{location}/**"):
        fetch(entry.location, path / entry.location.removeprefix(f"{location}/"))


def read(location: str) -> bytes | None:
    """Returns what a file holds, None if there is no such file."""
    from apache_beam.io.filesystems import FileSystems

    with _faults(location):
        there = FileSystems.exists(location)
    if not there:
        return None
    with opened(location) as file:
        return file.read()


def replace(location: str, content: IO[bytes], scratch: str) -> None:
    """Writes a file, which has its name when it is whole; the last of several writers stays.

    Args:
        location: of the file.
        content: what it is to hold.
        scratch: a folder in the same file system for the unfinished file.
    """
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    unfinished = posixpath.join(scratch, f"{uuid.uuid4().hex}.unfinished")
    with _faults(location):
        with FileSystems.create(unfinished, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            shutil.copyfileobj(content, file, _PIECE)
        FileSystems.rename([unfinished], [location])


def make_folder(folder: str) -> None:
    """Makes a folder, if it is not there, where the file system has folders."""
    from apache_beam.io.filesystems import FileSystems

    with _faults(folder):
        if FileSystems.get_filesystem(folder).has_dirs() and not FileSystems.exists(folder):
            FileSystems.mkdirs(folder)


def move(files: Iterable[tuple[str, str]]) -> None:
    """Gives files other names, from the first to the second of each pair; their folders are there."""
    from apache_beam.io.filesystems import FileSystems

    pairs = list(files)
    if pairs:
        sources, targets = (list(names) for names in zip(*pairs, strict=True))
        with _faults(targets[0]):
            FileSystems.rename(sources, targets)


def delete(files: Iterable[str]) -> None:
    """Deletes files that are there."""
    from apache_beam.io.filesystems import FileSystems

    names = list(files)
    if names:
        with _faults(names[0]):
            FileSystems.delete(names)


def remove(folder: str) -> None:
    """Removes a folder with all that it holds, if it is there."""
    from apache_beam.io.filesystems import FileSystems

    with _faults(folder):
        if not FileSystems.get_filesystem(folder).has_dirs():
            FileSystems.delete([f"{folder}/"])  # all objects whose names begin so
        elif FileSystems.exists(folder):
            FileSystems.delete([folder])


@contextlib.contextmanager
def _faults(location: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # each store has its own
        raise OSError(f"{location}: {first_line(_cause(error))}") from error


def _cause(error: Exception) -> Exception:
    """Returns the first of the errors that Beam's own lists, with what it listed it for."""
    for cause in getattr(error, "exception_details", {}).values():
        if isinstance(cause, Exception):
            return _cause(cause)
    return error

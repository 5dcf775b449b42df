"""The files of cases that are to be scored, each with the file for its answers."""

import dataclasses
import pathlib
import posixpath
from collections.abc import Iterable
from typing import Any

from schemas import directories
from schemas.errors import InputError
from serving.scoring.cases import FORMATS, format_of
from triage_runtime.storage.files import Entry
from triage_runtime.storage.locations import is_remote


@dataclasses.dataclass(frozen=True)
class Shard:
    """An input file, and the file for its answers; both are paths or addresses."""

    source: str
    target: str
    size: int  # bytes
    modified: float  # seconds

    @property
    def state(self) -> dict[str, Any]:
        """What changes with the content of the input."""
        return {"path": _resolved(self.source), "bytes": self.size, "modified": self.modified}

    @property
    def name(self) -> str:
        """The name of the file for the answers."""
        return posixpath.basename(self.target)


def _resolved(location: str) -> str:
    """Returns a path without links, or an address as it is."""
    return location if is_remote(location) else str(pathlib.Path(location).resolve())


def local_files(locations: Iterable[str]) -> list[Entry]:
    """Returns the files of cases among paths of this machine, and in directories among them.

    Raises:
        InputError: a path does not exist, or a directory has no files of cases.
    """
    files: list[Entry] = []
    for path in map(pathlib.Path, locations):
        if path.is_dir():
            files += in_folder(str(path), map(_entry, sorted(path.iterdir())))
        elif not path.exists():
            raise InputError(f"--input {path}: no such file or directory")
        else:
            files.append(_entry(path))
    return files


def _entry(path: pathlib.Path) -> Entry:
    status = path.stat()
    return Entry(str(path), status.st_size, status.st_mtime)


def in_folder(folder: str, files: Iterable[Entry]) -> list[Entry]:
    """Returns those of the files in a folder that hold cases.

    Raises:
        InputError: there are none.
    """
    paths = ((entry, pathlib.PurePosixPath(entry.location)) for entry in files)
    cases = [entry for entry, path in paths if format_of(path) and path.name != directories.VOCABULARY]
    if not cases:
        raise InputError(f"{folder}: no files that end in .{', .'.join(FORMATS)}")
    return cases


def shards_of(files: Iterable[Entry], output: str, output_format: str | None) -> list[Shard]:
    """Returns each input file with the file for its answers.

    Args:
        files: of cases.
        output: the directory of the answers.
        output_format: their ending, None for that of the input.

    Raises:
        InputError: a file is of no known format, two would have the same answers' file, or answers would replace a file
            of cases.
    """
    files = list(files)
    inputs = {_resolved(file.location) for file in files}
    shards: dict[str, Shard] = {}
    for file in files:
        path = pathlib.PurePosixPath(file.location)
        kind = format_of(path)
        if kind is None:
            raise InputError(f"{file.location}: unknown format: expected a name that ends in .{', .'.join(FORMATS)}")
        ending = path.name[path.name.rindex(f".{kind}") + 1 :]
        name = f"{path.name.removesuffix(ending)}{output_format or ending}"
        shard = Shard(file.location, posixpath.join(output, name), file.size, file.modified)
        other = shards.setdefault(name, shard)
        if other.source != shard.source:
            raise InputError(
                f"{shard.source} and {other.source} have the same name: score them into different directories"
            )
        if _resolved(shard.target) in inputs:
            raise InputError(
                f"{shard.target}: the answers would replace this input: give another directory as --output"
            )
    return list(shards.values())

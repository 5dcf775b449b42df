"""The output directory of a command that makes data: built beside its final place, and renamed when it is complete."""

import contextlib
import importlib.resources
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from schemas import directories
from schemas.errors import InputError, first_line
from schemas.evidence import Vocabulary

_FILES = (directories.VOCABULARY, directories.DATA_SCHEMA, directories.STATS, directories.REJECTS)


class OutputDirectory:
    """A directory that is being built, see `output_directory`."""

    def __init__(self, path: pathlib.Path, overwrite: bool, work: pathlib.Path):
        self.staging = work / "data"
        """Where the data directory is built."""
        self._path = path
        self._overwrite = overwrite
        self._replaced = work / "replaced"
        self.staging.mkdir()

    def publish(self) -> None:
        """Moves the staged directory to its place, after the same check as at the start."""
        _check(self._path, self._overwrite)
        target = self._path.resolve()
        if target.exists():
            target.rename(self._replaced)
        try:
            self.staging.rename(target)
        except OSError:
            if self._replaced.exists():
                self._replaced.rename(target)
            raise

    def publish_rejects(self) -> pathlib.Path:
        """Publishes only the list of rejects in `staging`; an existing data directory is left unchanged.

        Returns:
            The path of the list: in the directory, or beside it if that holds data.
        """
        target = self._path.resolve()
        if target.exists() and set(os.listdir(target)) - {directories.REJECTS}:
            place, shown = target.with_name(f"{target.name}.{directories.REJECTS}"), self._path.parent
        else:
            place, shown = target / directories.REJECTS, self._path
        place.parent.mkdir(exist_ok=True)
        (self.staging / directories.REJECTS).replace(place)
        return shown / place.name


@contextlib.contextmanager
def output_directory(path: pathlib.Path, overwrite: bool) -> Iterator[OutputDirectory]:
    """Yields a directory that is being built. At the end of the context, whatever was not published is deleted.

    With `overwrite`, an existing data directory may be replaced.

    Raises:
        InputError: `path` exists and may not be replaced, or it cannot be written, such as where the disk is full.
    """
    _check(path, overwrite)
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the result, and so on the same file system, where renaming is atomic.
        with tempfile.TemporaryDirectory(
            prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True
        ) as work:
            yield OutputDirectory(path, overwrite, pathlib.Path(work))
    except (OSError, tf.errors.OpError) as error:
        raise InputError(f"--out {path}: cannot write: {first_line(error)}") from error


def _check(path: pathlib.Path, overwrite: bool) -> None:
    """Raises InputError unless there is nothing at `path`, or a data directory that may be replaced."""
    try:
        names = os.listdir(path) if path.exists() else []
    except OSError as error:
        raise InputError(f"--out {path}: cannot use it: {error.strerror or error}") from error
    if set(names) <= {directories.REJECTS}:
        return
    if not overwrite:
        raise InputError(f"--out {path}: not empty: choose another directory, or give --overwrite")
    foreign = [name for name in names if name not in _FILES and directories.shard_parts(name) is None]
    if foreign:
        raise InputError(
            f"--out {path}: holds {min(foreign)!r}, which is not part of a data directory: --overwrite would "
            "delete it; choose another directory"
        )


def describe(directory: pathlib.Path, vocabulary: Vocabulary, stats: Mapping[str, Any]) -> None:
    """Writes the other files of a data directory beside its shards: vocabulary, schema and `stats`."""
    vocabulary.save(directory / directories.VOCABULARY)
    schema = importlib.resources.files("schemas").joinpath("vignette.pbtxt").read_bytes()
    (directory / directories.DATA_SCHEMA).write_bytes(schema)
    text = json.dumps(stats, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    (directory / directories.STATS).write_text(text, encoding="utf-8", errors="backslashreplace")

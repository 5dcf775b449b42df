"""The output directory of a command that makes data: built beside its final place, and renamed when it is complete."""

import contextlib
import importlib.resources
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from types import TracebackType
from typing import Any

from schemas import directories
from schemas.errors import InputError, first_line
from schemas.evidence import Vocabulary

_FILES = (directories.VOCABULARY, directories.DATA_SCHEMA, directories.STATS, directories.REJECTS)


class OutputDirectory:
    """A directory that is being built. At the end of the context, everything that was not published is deleted.

    Args:
        path: of the result.
        overwrite: whether an existing data directory may be replaced.

    Raises:
        InputError: `path` exists and may not be replaced.
    """

    def __init__(self, path: pathlib.Path, overwrite: bool):
        self.path = path
        self._target = path.resolve()
        self._overwrite = overwrite
        self._check()

    @property
    def staging(self) -> pathlib.Path:
        """Where the data directory is built."""
        return self._work / "data"

    def __enter__(self) -> "OutputDirectory":
        self._target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the result, and so on the same file system, where renaming is atomic.
        self._work = pathlib.Path(tempfile.mkdtemp(prefix=f".{self._target.name}.", dir=self._target.parent))
        self.staging.mkdir()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        shutil.rmtree(self._work, ignore_errors=True)

    def describe(self, vocabulary: Vocabulary, stats: Mapping[str, Any]) -> None:
        """Writes the other files of the data directory, see `describe`."""
        describe(self.staging, vocabulary, stats)

    def publish(self) -> None:
        """Moves the staged directory to its place, after the same check as at the start."""
        self._check()
        replaced = self._work / "replaced"
        if self._target.exists():
            self._target.rename(replaced)
        try:
            self.staging.rename(self._target)
        except OSError:
            if replaced.exists():
                replaced.rename(self._target)
            raise

    def publish_rejects(self) -> pathlib.Path:
        """Publishes only the list of rejects in `staging`; an existing data directory is left unchanged.

        Returns:
            The path of the list: in the directory, or beside it if that holds data.
        """
        place = self._target / directories.REJECTS
        if self._target.exists() and set(os.listdir(self._target)) - {directories.REJECTS}:
            place = self._target.with_name(f"{self._target.name}.{directories.REJECTS}")
        place.parent.mkdir(exist_ok=True)
        (self.staging / directories.REJECTS).replace(place)
        return self.path.parent / place.name if place.parent != self._target else self.path / place.name

    def _check(self) -> None:
        try:
            names = os.listdir(self._target) if self._target.exists() else []
        except OSError as error:
            raise InputError(f"--out {self.path}: cannot use it: {error.strerror or error}") from error
        check_replaceable(self.path, names, self._overwrite)


@contextlib.contextmanager
def writing(out: object) -> Iterator[None]:
    """Turns a full disk, a missing right and the like in the block into an InputError that names `--out`."""
    import tensorflow as tf

    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise InputError(f"--out {out}: cannot write: {first_line(error)}") from error


def check_replaceable(path: object, names: Collection[str], overwrite: bool) -> None:
    """Checks that a directory that holds files of these names may become a data directory.

    Raises:
        InputError: it holds data and `overwrite` is false, or it holds something else.
    """
    if set(names) <= {directories.REJECTS}:
        return
    foreign = [name for name in names if name not in _FILES and directories.shard_parts(name) is None]
    if not overwrite:
        raise InputError(f"--out {path}: not empty: choose another directory, or give --overwrite")
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

"""The output directory of a command whose workers write it through Apache Beam's file systems.

In a store there are no folders to rename: the finished files are renamed one by one, and stats.json comes last. Without
it a directory is no data directory.
"""

import contextlib
import pathlib
import posixpath
import tempfile
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from schemas import directories
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from trainer.vignettes.output import OutputDirectory, check_replaceable, describe
from triage_runtime.storage import files, locations


class BeamOutput:
    """What `OutputDirectory` is on this machine, at an address; unfinished files are in a folder beside it.

    Args:
        location: of the result, without a slash at its end.
        overwrite: whether an existing data directory may be replaced.

    Raises:
        InputError: there is something at the address that may not be replaced, or the address cannot be read.
    """

    def __init__(self, location: str, overwrite: bool):
        self._target = location
        self._overwrite = overwrite
        folder, name = posixpath.split(location)
        self._work = posixpath.join(folder, f".{name}.{uuid.uuid4().hex[:8]}")
        self._kept = False
        self._checked()

    @property
    def staging(self) -> str:
        """Where the data directory is built."""
        return posixpath.join(self._work, "data")

    @property
    def scratch(self) -> str:
        """Folder for temporary files."""
        return posixpath.join(self._work, "scratch")

    def __enter__(self) -> "BeamOutput":
        files.make_folder(self.staging)
        files.make_folder(self.scratch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._kept:
            with contextlib.suppress(OSError):
                files.remove(self._work)

    def describe(self, vocabulary: Vocabulary, stats: Mapping[str, Any]) -> None:
        """Writes the other files of the data directory, see `trainer.vignettes.output.describe`."""
        with tempfile.TemporaryDirectory(prefix="triage-") as folder:
            describe(pathlib.Path(folder), vocabulary, stats)
            for path in pathlib.Path(folder).iterdir():
                with path.open("rb") as content:
                    files.replace(posixpath.join(self.staging, path.name), content, self.scratch)

    def publish(self) -> None:
        """Moves the staged files to their place, after the same check as at the start.

        Raises:
            InputError: something is there by now that may not be replaced.
            OSError: a file cannot be moved, or the user interrupts that. Without stats.json, what is there is no data
                directory; the other new files stay where they were made.
        """
        old, new = self._checked(), self._names(self.staging)
        self._kept = True  # from here on there may be no other data
        try:
            self._exchange(old, new)
        except (OSError, KeyboardInterrupt) as error:
            raise OSError(
                f"{str(error) or 'interrupted'}; the files that are not there yet are in {self.staging}: move them to "
                f"{self._target}, stats.json last, and delete {self._work}"
            ) from error
        self._kept = False

    def _exchange(self, old: list[str], new: list[str]) -> None:
        new.sort(key=lambda name: name == directories.STATS)
        # Old counts must not be beside new vignettes even for a moment.
        old.sort(key=lambda name: name != directories.STATS)
        for names in (old[:1], old[1:]):
            files.delete(posixpath.join(self._target, name) for name in names)
        files.make_folder(self._target)
        for names in (new[:-1], new[-1:]):
            files.move((posixpath.join(self.staging, name), posixpath.join(self._target, name)) for name in names)

    def _checked(self) -> list[str]:
        """Returns the names of the files that may be replaced."""
        try:
            names = self._names(self._target)
        except OSError as error:
            raise InputError(f"--out {self._target}: cannot use it: {error}") from error
        check_replaceable(self._target, names, self._overwrite)
        return names

    def _names(self, folder: str) -> list[str]:
        names = (entry.location.removeprefix(f"{folder}/") for entry in files.entries(f"{folder}/**"))
        return [name for name in names if name and not name.endswith("/")]  # some tools mark a folder so


def output_at(out: pathlib.Path | locations.Remote, overwrite: bool) -> OutputDirectory | BeamOutput:
    """Returns the output directory at a path or an address; `str` of its folders is what workers understand.

    A path becomes a data directory by a single rename.

    Raises:
        InputError: what is there may not be replaced, or the path is one that Beam would take for a pattern.
    """
    location = files.absolute(str(out))
    return BeamOutput(location, overwrite) if isinstance(out, locations.Remote) else OutputDirectory(out, overwrite)

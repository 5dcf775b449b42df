"""Commands on an object store (`gs://`): their input is copied to this machine, their output is copied back.

A store has no folders, and cannot append, rename atomically or lock. Commands need all of that, so their files are in a
local folder while they run. Objects are uploaded whole, and those that mark a directory as complete last.
"""

import argparse
import contextlib
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from schemas import directories
from schemas.errors import InputError
from triage_runtime.storage import locations, object_store
from triage_runtime.storage.locations import Fetched, Remote

CHECKPOINT_LIST = "checkpoint"
"""The file in which TensorFlow names the newest checkpoint."""
SUMMARIES = "logs"

_LAST = (directories.SAVED_MODEL, directories.STATS, CHECKPOINT_LIST)
_LOCAL = ("lock",)  # meaningless on another machine


@contextlib.contextmanager
def staged(arguments: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """Yields `arguments` with a path of this machine in place of every `Remote`.

    Input is fetched before the command; output is uploaded after it, even if it raises an InputError, and whenever the
    command calls `arguments.upload()`.

    Raises:
        InputError: the object store cannot be read or written; or the command's own, with addresses for paths.
    """
    if not locations.any_remote(arguments):
        yield arguments
        return
    with tempfile.TemporaryDirectory(prefix="triage-") as scratch:
        stage = Stage(pathlib.Path(scratch).resolve())
        try:
            local = {name: _mapped(values, stage.place) for name, values in vars(arguments).items()}
            with locations.standing_for(stage.uris):
                try:
                    yield argparse.Namespace(**local, upload=stage.upload)
                except InputError:
                    with contextlib.suppress(InputError):  # report the first error
                        stage.upload()
                    raise
            stage.upload()
        finally:
            stage.forget()


def upload(arguments: argparse.Namespace) -> Callable[[], None]:
    """Returns a function that uploads the files of a running command; it does nothing for local paths."""
    return getattr(arguments, "upload", lambda: None)


class Stage:
    """Local folders that mirror addresses."""

    def __init__(self, scratch: pathlib.Path):
        self._scratch = scratch
        self._mirrors: list[Mirror] = []
        self._refused = False  # by the store; no further attempts are made

    @property
    def uris(self) -> Mapping[str, str]:
        """From local folders to the addresses that they mirror."""
        return {str(mirror.local): mirror.uri for mirror in self._mirrors}

    def place(self, remote: Remote) -> pathlib.Path:
        """Returns the local path of `remote`, after fetching what is needed of it."""
        mirror = Mirror(self._scratch / str(len(self._mirrors)), remote.folder, remote.written)
        self._mirrors.append(mirror)
        mirror.fetch(remote.name, remote.fetched)
        return mirror.local / remote.name

    def upload(self) -> None:
        """Uploads what was written, unless the store has refused before.

        Raises:
            InputError: the store refuses.
        """
        if self._refused:
            return
        try:
            for mirror in self._mirrors:
                mirror.push()
        except InputError:
            self._refused = True
            raise

    def forget(self) -> None:
        """Ends the stage; nothing is uploaded after this."""
        self._mirrors = []


class Mirror:
    """A local folder that mirrors the part of an address that a command needs.

    It mirrors the parent of the command's path, so that files written beside that are uploaded as well.
    """

    def __init__(self, local: pathlib.Path, uri: str, written: bool):
        self.local = local
        self.uri = uri
        self._written = written
        self._known: dict[str, tuple[int, int]] = {}  # time and size of files that are the same in both places
        local.mkdir(parents=True)

    def fetch(self, name: str, fetched: Fetched) -> None:
        """Copies `name`, a file or a directory, to this machine as far as it exists.

        Raises:
            InputError: the object store cannot be read.
        """
        if fetched is Fetched.NOTHING:
            return
        with object_store.faults(f"{self.uri}/{name}: cannot read"):
            names = object_store.names(f"{self.uri}/{name}")
            for each in _needed(names, fetched):
                path = "/".join(filter(None, (name, each)))
                target = self.local / path
                target.parent.mkdir(parents=True, exist_ok=True)
                object_store.copy(f"{self.uri}/{path}", str(target))
                self._known[path] = _state(target)
            if fetched is Fetched.NEWEST_VERSION:
                for version in _versions(names).values():
                    (self.local / name / version).mkdir(parents=True, exist_ok=True)

    def push(self) -> None:
        """Updates the address to the content of the folder, except for what was never fetched.

        Raises:
            InputError: the object store cannot be written.
        """
        if not self._written:
            return
        files = {path.relative_to(self.local).as_posix(): path for path in self.local.rglob("*") if _kept(path)}
        states = {name: _state(path) for name, path in files.items()}
        changed = [name for name, state in states.items() if self._known.get(name) != state]
        with object_store.faults(f"{self.uri}: cannot write"):
            for name in changed:
                # Old counts must not be beside new vignettes even for a moment.
                if name in self._known and name.endswith(directories.STATS):
                    object_store.remove(f"{self.uri}/{name}")
            for name in sorted(changed, key=_goes_last):
                object_store.copy(str(files[name]), f"{self.uri}/{name}")
                self._known[name] = states[name]
            for name in [name for name in self._known if name not in states]:
                object_store.remove(f"{self.uri}/{name}")
                del self._known[name]


def _needed(names: list[str], fetched: Fetched) -> list[str]:
    if fetched is Fetched.JOB:
        return [name for name in names if name.split("/")[0] not in (SUMMARIES, *_LOCAL)]
    if fetched is Fetched.NEWEST_VERSION and (versions := _versions(names)):
        newest = versions[max(versions)]
        return [name for name in names if name.split("/")[0] == newest]
    return names


def _versions(names: list[str]) -> dict[int, str]:
    """Returns the version folders among the names of objects, by their numbers."""
    folders = {name.split("/")[0] for name in names if "/" in name}
    return {number: name for name in folders if (number := directories.version_number(name)) is not None}


def _kept(path: pathlib.Path) -> bool:
    return path.is_file() and path.name not in _LOCAL


def _goes_last(name: str) -> tuple[bool, str]:
    return name.rpartition("/")[2] in _LAST, name


def _state(path: pathlib.Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _mapped(value: Any, place: Callable[[Remote], pathlib.Path]) -> Any:
    if isinstance(value, list):
        return [_mapped(item, place) for item in value]
    return place(value) if isinstance(value, Remote) else value

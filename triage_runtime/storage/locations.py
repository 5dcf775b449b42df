"""Files of users at paths of this machine, and at addresses in an object store such as `gs://bucket/folder`.

A store has no folders, and cannot append, rename atomically or lock. Commands need all of that, so they work on copies
in a local folder: `staged` fetches their input before they run, and uploads their output afterwards. Objects are
uploaded whole, and those that mark a directory as complete last.

The store is reached through TensorFlow's `tf.io.gfile`, which loads with the first address; paths need none of it. The
other choice was `etils.epath`. It imports in 0.1 s, TensorFlow in 3.5 s, but each command that takes an address needs
TensorFlow anyway, and where that is installed, `epath` goes through `tf.io.gfile` itself. Without it, it needs gcsfs
(0.6 s), a second client with its own credentials, whose present release asks for a later grpcio than TF-Agents allows.
Both copy files of this machine as fast as the disk does.
"""

import argparse
import contextlib
import contextvars
import dataclasses
import enum
import functools
import os
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from schemas import directories
from schemas.errors import InputError, first_line

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://")
_LAST = (directories.SAVED_MODEL, directories.STATS, "checkpoint")  # where TensorFlow names the newest checkpoint
_LOCAL = "lock"  # meaningless on another machine


class Fetched(enum.Enum):
    """Which of the files at an address a command needs."""

    ALL = "everything"
    NOTHING = "nothing"
    NEWEST_VERSION = "the newest version, and the numbers of the others"


@dataclasses.dataclass(frozen=True)
class Remote:
    """An address in an object store."""

    uri: str  # without a slash at its end
    fetched: Fetched
    written: bool  # whether the command writes there

    def __fspath__(self) -> str:
        return self.uri

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> "Remote":
        return dataclasses.replace(self, uri=f"{self.uri}/{name}")

    @property
    def folder(self) -> str:
        """The address of the folder that holds it."""
        return self.uri.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.uri.rpartition("/")[2]


Location: TypeAlias = pathlib.Path | Remote
"""What an option that takes a path becomes."""


def is_remote(text: str) -> bool:
    """Whether `text` is an address in an object store."""
    return _SCHEME.match(text) is not None


def any_remote(arguments: argparse.Namespace) -> bool:
    """Whether one of the parsed arguments is an address."""
    values = vars(arguments).values()
    return any(isinstance(item, Remote) for value in values for item in (value if isinstance(value, list) else [value]))


def _location(text: str, fetched: Fetched, written: bool) -> Location:
    if not is_remote(text):
        return pathlib.Path(text)
    uri = text.rstrip("/")
    scheme, _, path = uri.partition("://")
    bucket, _, name = path.partition("/")
    if not bucket or not name:
        expected = f"{scheme}://{bucket or 'BUCKET'}/triage"
        raise argparse.ArgumentTypeError(f"{text}: expected a folder or file in the bucket, such as {expected}")
    return Remote(uri, fetched, written)


# Types of options for `argparse`.
source = functools.partial(_location, fetched=Fetched.ALL, written=False)
"""The file or directory that a command reads."""
source_model = functools.partial(_location, fetched=Fetched.NEWEST_VERSION, written=False)
"""The model base path whose newest version a command reads."""
result = functools.partial(_location, fetched=Fetched.ALL, written=True)
"""The file or directory that a command writes, continues, or refuses to replace."""
fresh_result = functools.partial(_location, fetched=Fetched.NOTHING, written=True)
"""The file or directory that a command writes without looking at what is there."""
model_base = functools.partial(_location, fetched=Fetched.NEWEST_VERSION, written=True)
"""The model base path that a command adds a version to."""


_COPIES: contextvars.ContextVar[tuple[tuple[str, str], ...]] = contextvars.ContextVar("copies", default=())


@contextlib.contextmanager
def standing_for(copies: Mapping[str, str]) -> Iterator[None]:
    """Makes `shown`, and the InputErrors that leave the block, name what the user gave in place of its copies.

    Args:
        copies: from folders on this machine to what they are copies of.
    """
    token = _COPIES.set((*copies.items(), *_COPIES.get()))
    try:
        yield
    except InputError as error:
        raise InputError(shown(str(error))) from error
    finally:
        _COPIES.reset(token)


def shown(path: str | os.PathLike[str]) -> str:
    """Returns a path, or a text with paths in it, as the user knows it: see `standing_for`."""
    text = os.fspath(path)
    for folder, origin in _COPIES.get():
        # Not .../10 for .../1, and a backslash stands for itself.
        text = re.sub(rf"{re.escape(folder)}(?!\w)", origin.replace("\\", r"\\"), text)
    return text


def _gfile() -> Any:
    import tensorflow as tf

    return tf.io.gfile


def names(uri: str) -> list[str]:
    """Returns the names of the objects below `uri`, relative to it: `[""]` if it is an object, `[]` if there are none.

    Args:
        uri: without a slash at its end.
    """
    store = _gfile()
    if not store.isdir(uri):
        return [""] if store.exists(uri) else []
    below = []
    for folder, _, objects in store.walk(uri):
        path = folder.rstrip("/").removeprefix(uri).strip("/")
        # Some tools create an empty object whose name ends with a slash to mark a folder.
        below += ["/".join(filter(None, (path, name))) for name in objects if name and not name.endswith("/")]
    return sorted(below)


def fetch(uri: str, name: str, folder: pathlib.Path) -> pathlib.Path:
    """Copies the object `name` below `uri` to the same name below a folder, and returns its path there."""
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    _gfile().copy(f"{uri}/{name}", str(target), overwrite=True)
    return target


@contextlib.contextmanager
def store_errors(text: str) -> Iterator[None]:
    """Turns the store's errors in the block into an InputError that begins with `text`."""
    import tensorflow as tf

    try:
        yield
    except (tf.errors.OpError, OSError) as error:
        advice = "check the address, and that this machine's account may use it"
        raise InputError(f"{text}: {first_line(error)}: {advice}") from error


def files_at(location: Location) -> list[Location]:
    """Returns the files of a folder by name, or a file alone; nothing where there is none.

    Raises:
        InputError: the store cannot be read.
    """
    if isinstance(location, pathlib.Path):
        below = sorted(location.iterdir()) if location.is_dir() else [location]
        return [path for path in below if path.exists() and not path.is_dir()]
    with store_errors(f"{location}: cannot read"):
        there = names(location.uri)
    return [location / name if name else location for name in there if "/" not in name]


@contextlib.contextmanager
def staged(arguments: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """Yields `arguments` with a path of this machine in place of every `Remote`.

    Input is fetched before the command; output is uploaded after it, even if it raises an InputError, and whenever the
    command calls `arguments.upload()`. After a refusal of the store nothing is uploaded any more.

    Raises:
        InputError: the object store cannot be read or written; or the command's own, with addresses for paths.
    """
    if not any_remote(arguments):
        yield arguments
        return
    mirrors: list[_Mirror] = []

    def upload() -> None:
        waiting = mirrors.copy()
        mirrors.clear()
        for mirror in waiting:
            mirror.push()
        mirrors.extend(waiting)

    with tempfile.TemporaryDirectory(prefix="triage-") as scratch:

        def place(remote: Remote) -> pathlib.Path:
            mirrors.append(_Mirror(pathlib.Path(scratch).resolve() / str(len(mirrors)), remote))
            return mirrors[-1].local / remote.name

        try:
            local = {name: _mapped(values, place) for name, values in vars(arguments).items()}
            with standing_for({str(mirror.local): mirror.uri for mirror in mirrors}):
                try:
                    yield argparse.Namespace(**local, upload=upload)
                except InputError:
                    with contextlib.suppress(InputError):  # report the first error
                        upload()
                    raise
            upload()
        finally:
            mirrors.clear()  # nothing is uploaded any more


def upload(arguments: argparse.Namespace) -> Callable[[], None]:
    """Returns a function that uploads the files of a running command; it does nothing for local paths."""
    return getattr(arguments, "upload", lambda: None)


class _Mirror:
    """A local folder that mirrors the part of an address that a command needs, which it fetches.

    It mirrors the parent of the address, so that files written beside that are uploaded as well.

    Raises:
        InputError: the object store cannot be read.
    """

    def __init__(self, local: pathlib.Path, remote: Remote):
        self.local = local
        self.uri = remote.folder
        self._written = remote.written
        self._known: dict[str, tuple[int, int]] = {}  # time and size of files that are the same in both places
        local.mkdir(parents=True)
        if remote.fetched is Fetched.NOTHING:
            return
        with store_errors(f"{remote}: cannot read"):
            there = names(remote.uri)
            needed, numbered = there, versions(there)
            if remote.fetched is Fetched.NEWEST_VERSION and numbered:
                needed = [name for name in there if name.split("/")[0] == numbered[max(numbered)]]
                for version in numbered.values():
                    (local / remote.name / version).mkdir(parents=True, exist_ok=True)
            for each in needed:
                path = "/".join(filter(None, (remote.name, each)))
                self._known[path] = _state(fetch(self.uri, path, local))

    def push(self) -> None:
        """Updates the address to the content of the folder, except for what was never fetched.

        Raises:
            InputError: the object store cannot be written.
        """
        if not self._written:
            return
        kept = (path for path in self.local.rglob("*") if path.is_file() and path.name != _LOCAL)
        files = {path.relative_to(self.local).as_posix(): path for path in kept}
        states = {name: _state(path) for name, path in files.items()}
        changed = [name for name, state in states.items() if self._known.get(name) != state]
        with store_errors(f"{self.uri}: cannot write"):
            for name in changed:
                # Old counts must not be beside new vignettes even for a moment.
                if name in self._known and name.endswith(directories.STATS):
                    _gfile().remove(f"{self.uri}/{name}")
            for name in sorted(changed, key=lambda name: (name.rpartition("/")[2] in _LAST, name)):
                _gfile().copy(str(files[name]), f"{self.uri}/{name}", overwrite=True)
                self._known[name] = states[name]
            for name in [name for name in self._known if name not in states]:
                _gfile().remove(f"{self.uri}/{name}")
                del self._known[name]


def versions(there: list[str]) -> dict[int, str]:
    """Returns the version folders among the names of objects, by their numbers."""
    folders = {name.split("/")[0] for name in there if "/" in name}
    return {number: name for name in folders if (number := directories.version_number(name)) is not None}


def _state(path: pathlib.Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _mapped(value: Any, place: Callable[[Remote], pathlib.Path]) -> Any:
    if isinstance(value, list):
        return [_mapped(item, place) for item in value]
    return place(value) if isinstance(value, Remote) else value

"""Locations of a user's files: on this machine, or in an object store (`gs://bucket/folder`).

The functions below are argparse types of options that take a path. A path on this machine becomes a `pathlib.Path`, an
address a `Remote`. `triage_runtime.storage.staging` replaces it with a path before the command runs, unless the command
reads addresses itself (`reads_addresses`, see `triage_cli`).
"""

import argparse
import contextlib
import contextvars
import dataclasses
import enum
import os
import pathlib
import re
from collections.abc import Iterator, Mapping

from schemas.errors import InputError

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://")


class Fetched(enum.Enum):
    """Which of the files at an address a command needs."""

    ALL = "everything"
    NOTHING = "nothing"
    JOB = "everything but the summaries"
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

    @property
    def folder(self) -> str:
        """The address of the folder that holds it."""
        return self.uri.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.uri.rpartition("/")[2]


def is_remote(text: str) -> bool:
    """Whether `text` is an address in an object store."""
    return _SCHEME.match(text) is not None


def any_remote(arguments: argparse.Namespace) -> bool:
    """Whether one of the parsed arguments is an address."""
    values = vars(arguments).values()
    return any(isinstance(item, Remote) for value in values for item in (value if isinstance(value, list) else [value]))


def source(text: str) -> pathlib.Path | Remote:
    """Returns the file or directory that a command reads."""
    return _location(text, Fetched.ALL, written=False)


def source_job(text: str) -> pathlib.Path | Remote:
    """Returns the job directory that a command reads."""
    return _location(text, Fetched.JOB, written=False)


def source_model(text: str) -> pathlib.Path | Remote:
    """Returns the model base path whose newest version a command reads."""
    return _location(text, Fetched.NEWEST_VERSION, written=False)


def result(text: str) -> pathlib.Path | Remote:
    """Returns the file or directory that a command writes, continues, or refuses to replace."""
    return _location(text, Fetched.ALL, written=True)


def fresh_result(text: str) -> pathlib.Path | Remote:
    """Returns the file or directory that a command writes without looking at what is there."""
    return _location(text, Fetched.NOTHING, written=True)


def job(text: str) -> pathlib.Path | Remote:
    """Returns the job directory that a command works in."""
    return _location(text, Fetched.JOB, written=True)


def model_base(text: str) -> pathlib.Path | Remote:
    """Returns the model base path that a command adds a version to."""
    return _location(text, Fetched.NEWEST_VERSION, written=True)


def _location(text: str, fetched: Fetched, written: bool) -> pathlib.Path | Remote:
    if not is_remote(text):
        return pathlib.Path(text)
    uri = text.rstrip("/")
    scheme, _, path = uri.partition("://")
    bucket, _, name = path.partition("/")
    if not bucket or not name:
        expected = f"{scheme}://{bucket or 'BUCKET'}/triage"
        raise argparse.ArgumentTypeError(f"{text}: expected a folder or file in the bucket, such as {expected}")
    return Remote(uri, fetched, written)


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

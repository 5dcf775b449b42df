"""The JSON output of the figures that a command reports: `--json FILE`, or `-` for standard output."""

import argparse
import json
import os
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from schemas.errors import InputError
from triage_runtime.storage import locations
from triage_runtime.storage.whole_file import removed_unless_written


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the option `--json`."""
    parser.add_argument(
        "--json", type=_destination, metavar="FILE", help="write the figures as JSON to FILE, - for standard output"
    )


def _destination(text: str) -> str | pathlib.Path | locations.Remote:
    return locations.fresh_result(text) if locations.is_remote(text) else text


def check(destination: str | pathlib.Path | locations.Remote | None, option: str = "--json") -> None:
    """Checks, before hours of work, that the file which `option` names can be expected to be written.

    An address is not looked at: a store has no folders that could be missing, and its rights are those of the store.

    Raises:
        InputError: the file's directory is missing or not writable, or the file cannot be replaced.
    """
    if destination is None or destination == "-" or isinstance(destination, locations.Remote):
        return
    path = pathlib.Path(destination)
    fault = None
    if not path.parent.is_dir():
        fault = f"{path.parent} is not a directory: create it first"
    elif path.is_dir():
        fault = "it is a directory: give the name of a file"
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        fault = "no permission"
    if fault:
        raise InputError(f"{option} {destination}: cannot write: {fault}")


def write(figures: Mapping[str, Any] | tuple[Any, ...], destination: str | pathlib.Path | None) -> None:
    """Writes `figures`, see `plain`, as JSON to `destination`; None writes nothing.

    Raises:
        InputError: the file cannot be written.
    """
    if destination is None:
        return
    text = json.dumps(plain(figures), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if destination == "-":
        sys.stdout.write(text)
        return
    path = pathlib.Path(destination)
    try:
        with removed_unless_written(path):
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--json {destination}: cannot write: {error.strerror or error}") from error


def plain(value: Any) -> Any:
    """Returns `value` with named tuples as dicts and arrays as lists, so that JSON keeps the names."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value

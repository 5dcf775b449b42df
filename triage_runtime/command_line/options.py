"""The options of a command as a frozen dataclass, and the bounds of its numbers."""

import argparse
import dataclasses
from typing import TYPE_CHECKING, TypeVar

from schemas.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Options = TypeVar("_Options", bound=DataclassInstance)


def read(kind: "type[_Options]", arguments: argparse.Namespace) -> "_Options":
    """Returns the dataclass `kind` with the parsed argument of each field's name.

    Raises:
        InputError: the dataclass refuses a value.
    """
    return kind(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(kind)})


def flag(name: str) -> str:
    """Returns the flag of an option, such as `--shard-size` for `shard_size`."""
    return f"--{name.replace('_', '-')}"


def check_bounds(name: str, value: int | None, least: int, most: int | None = None) -> None:
    """Raises an InputError if the option `name` has a value outside of its bounds; None is always inside."""
    if value is not None and not (least <= value and (most is None or value <= most)):
        limit = f"{least} or more" if most is None else f"{least} to {most}"
        raise InputError(f"{flag(name)} {value}: expected {limit}")

"""The options of a command as a frozen dataclass, from which its parser is made, and the bounds of its numbers."""

import argparse
import dataclasses
import typing
from typing import TYPE_CHECKING, Any, TypeVar

from schemas.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Options = TypeVar("_Options", bound=DataclassInstance)


def option(text: str, **arguments: Any) -> Any:
    """Returns the field of an option: `text` is its help, and `arguments` are those of `add_argument` of a parser.

    Without a `default` the option is None, or False of a bool, and must be given if its type allows neither. A
    `default` other than a list or dict is the field's default, too.
    """
    default = arguments.get("default", [])
    field: dict[str, Any] = {} if isinstance(default, list | dict) else {"default": default}
    return dataclasses.field(metadata={"help": text, **arguments}, **field)


def add_arguments(parser: argparse.ArgumentParser, kind: "type[DataclassInstance]") -> None:
    """Gives `parser` an option for each `option` among the fields of `kind`, of the field's name and type."""
    for field in dataclasses.fields(kind):
        arguments = dict(field.metadata)
        if not arguments:
            continue
        if field.type is bool:
            arguments["action"] = "store_true"
        else:
            kinds = typing.get_args(field.type) or (field.type,)
            arguments.setdefault("type", kinds[0])
            arguments.setdefault("required", "default" not in arguments and type(None) not in kinds)
        parser.add_argument(flag(field.name), **arguments)


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

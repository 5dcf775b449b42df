"""Keywords in place of the flags of a command."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from schemas.errors import InputError
from trainer.vignettes.tfrecord import DataDirectory
from triage_runtime.command_line import options


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def parsed(add_arguments: Callable[[argparse.ArgumentParser], None], given: Mapping[str, Any]) -> argparse.Namespace:
    """Returns what a command reads from its command line, with its defaults.

    Args:
        add_arguments: of the command's module.
        given: values by the names of the options, `_` in place of `-`. True gives a flag alone; None and False give
            nothing; a list gives several values.

    Raises:
        InputError: the command has no such option, or refuses a value.
    """
    parser = _Parser(allow_abbrev=False, add_help=False)
    add_arguments(parser)
    words = []
    for name, value in given.items():
        if value is not None and value is not False:
            values = value if isinstance(value, list | tuple) else [] if value is True else [value]
            words += [
                options.flag(name),
                *(str(each.path if isinstance(each, DataDirectory) else each) for each in values),
            ]
    return parser.parse_args(words)

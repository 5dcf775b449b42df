"""Keywords in place of the flags of a command."""

import argparse
import contextlib
import difflib
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NoReturn, TypeVar, cast

from schemas.errors import InputError
from triage_runtime.command_line import options

_Function = TypeVar("_Function", bound=Callable[..., Any])
AddArguments = Callable[[argparse.ArgumentParser], None]
_FLAG = re.compile(r"(?:argument )?--([a-z]+(?:-[a-z]+)*)")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message)


@contextlib.contextmanager
def in_keywords(**renamed: str) -> Iterator[None]:
    """Lets an InputError name keywords in place of flags, and arguments that it begins with as in `renamed`."""
    try:
        yield
    except InputError as error:
        name, colon, rest = _FLAG.sub(lambda flag: flag[1].replace("-", "_"), str(error)).partition(":")
        raise InputError(f"{renamed.get(name, name)}{colon}{rest}") from error


def takes_options(add_arguments: AddArguments, *others: str) -> Callable[[_Function], _Function]:
    """Returns a decorator of a function with `**options`, those of a command but for `others`.

    The function shows them, with their types, in its signature and its documentation, which notebooks complete from. It
    refuses other keywords, and an `InputError` of the command names keywords in place of flags.
    """

    def decorated(function: _Function) -> _Function:
        given = inspect.signature(function)
        named = [each for each in given.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        actions = [each for each in _parser(add_arguments)._actions if each.dest not in others]
        added = {each.dest: _parameter(each) for each in actions}
        shown = given.replace(parameters=[*named, *added.values()])

        @functools.wraps(function)
        def called(*values: Any, **keywords: Any) -> Any:
            for name in keywords.keys() - shown.parameters.keys():
                near = difflib.get_close_matches(name, shown.parameters, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(shown.parameters)}"
                raise InputError(f"{name}: no such keyword: {hint}")
            with in_keywords():
                return function(*values, **keywords)

        texts = [f"    {each.dest}: {each.help}" for each in actions]
        called.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Options:", *texts])
        called.__signature__ = shown  # type: ignore[attr-defined]
        return cast(_Function, called)

    return decorated


def parsed(add_arguments: AddArguments, given: Mapping[str, Any]) -> argparse.Namespace:
    """Returns what a command reads from its command line, with its defaults.

    Args:
        add_arguments: of the command's module.
        given: values by the names of the options, `_` in place of `-`. True gives a flag alone; None and False give
            nothing; a list, an array or the like gives several values.

    Raises:
        InputError: the command refuses a value.
    """
    words = []
    for name, value in given.items():
        if value is not None and value is not False:
            several = isinstance(value, Iterable) and not isinstance(value, str | os.PathLike)
            values = value if several else [] if value is True else [value]
            words.append(options.flag(name))
            words += (os.fspath(each) if isinstance(each, os.PathLike) else str(each) for each in values)
    return _parser(add_arguments).parse_args(words)


def _parser(add_arguments: AddArguments) -> argparse.ArgumentParser:
    parser = _Parser(allow_abbrev=False, add_help=False)
    add_arguments(parser)
    return parser


def _parameter(action: argparse.Action) -> inspect.Parameter:
    """Returns an option as a keyword; None stands for a default that depends on others."""
    kind: Any = action.type if isinstance(action.type, type) else str if action.type is None else str | os.PathLike
    kind = Literal[tuple(action.choices)] if action.choices else kind
    kind = list[kind] if action.nargs == "+" else bool if action.nargs == 0 else kind
    default = None if action.default is argparse.SUPPRESS else action.default
    return inspect.Parameter(action.dest, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)

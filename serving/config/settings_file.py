"""Options of `triage serve` in a TOML file, such as `http-port = 8501`."""

import difflib
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from schemas.errors import InputError
from schemas.text_file import read_text
from serving.config.settings import OPTIONS

OTHERS: Mapping[str, type] = {
    "model_base_path": str, "model_config_file": str, "version": int, "label": list,
    "port_file": str,
}  # fmt: skip
"""The options that are no settings of ServeConfig, by their names in the code."""
_EXPECTED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text in quotes",
    list: "a list of texts in quotes",
}


def read_settings(path: pathlib.Path) -> dict[str, Any]:
    """Returns the options in a file by their names in the code; their ranges are not checked.

    Raises:
        InputError: the file cannot be read, is not TOML, or has an unknown option or one of another type.
    """
    try:
        table = tomllib.loads(read_text(path, "--config"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"--config {path}: not TOML: {error}") from None
    types = {**OTHERS, **{field.name: type(field.default) for field in OPTIONS}}
    options = {name.replace("_", "-"): (name, kind) for name, kind in types.items()}
    settings: dict[str, Any] = {}
    for option, value in table.items():
        if option not in options:
            near = difflib.get_close_matches(option, options, 1)
            hint = (
                f"did you mean {near[0]!r}?" if near else "see triage serve --help, and leave out the dashes before it"
            )
            raise InputError(f"--config {path}: no option {option!r}: {hint}")
        name, kind = options[option]
        if not _fits(value, kind):
            raise InputError(f"--config {path}: {option}: expected {_EXPECTED[kind]}, got {value!r}")
        settings[name] = float(value) if kind is float else value
    return settings


def _fits(value: Any, kind: type) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind is float:
        return type(value) in (int, float)
    return type(value) is kind

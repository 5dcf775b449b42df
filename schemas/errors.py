"""What a person reads when something goes wrong, and of the errors of libraries no more than is of use."""

import re
from typing import Any

# What TensorFlow puts before and behind the message of an operation, or on a line above it.
_OPERATION = re.compile(r"\{\{(?:function_)?node [^}]*\}\}|\[Op:\w+\].*|^Graph execution error:$")
SHOWN_CHARACTERS = 60
"""Of a text in a message."""


class InputError(ValueError):
    """Input that a user can correct.

    The message is one line that names the file, the line or id, what was expected and what to do. The command
    line prints it without a traceback and exits with code 2.
    """


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message that is not empty, or the error's class if there is none.

    For an error of the operating system that is the reason alone. TensorFlow's messages have many lines; its attribute
    `message` leaves out the operation, whose name inside the line is left out, too.
    """
    message = getattr(error, "strerror", None) or getattr(error, "message", None) or error
    lines = (_OPERATION.sub("", line).strip() for line in str(message).splitlines())
    return next(filter(None, lines), type(error).__name__)


def shown(value: Any) -> str:
    """Returns the value as it appears in a one-line message: escaped, and shortened if it is long."""
    kinds = {dict: "an object", list: "a list", bool: str(value).lower(), type(None): "null"}
    if type(value) in kinds:
        return kinds[type(value)]
    if isinstance(value, str) and len(value) > SHOWN_CHARACTERS:
        return f"{value[:SHOWN_CHARACTERS]!r}..."
    return repr(value)

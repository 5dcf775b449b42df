"""What a person reads when something goes wrong, and of the errors of libraries no more than is of use."""

import re

# What TensorFlow puts before and behind the message of an operation.
_OPERATION = re.compile(r"\{\{(?:function_)?node [^}]*\}\}|\[Op:\w+\].*")


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

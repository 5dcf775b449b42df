"""The error that bad input raises, wherever it is found."""


class InputError(ValueError):
    """Input that a user can correct.

    The message is one line that names the file, the line or id, what was expected and what to do. The command
    line prints it without a traceback and exits with code 2.
    """


def first_line(error: BaseException) -> str:
    """Returns the first line that says something in the message of an error, its kind where it has no message.

    TensorFlow's go on for many lines, and are in `message` without the operation that they are of.
    """
    lines = str(getattr(error, "message", None) or error).splitlines()
    return next(filter(None, lines), type(error).__name__)

"""The error for bad input, wherever it is found."""


class InputError(ValueError):
    """Input that a user can correct.

    The message is one line that names the file, the line or id, what was expected and what to do. The command
    line prints it without a traceback and exits with code 2.
    """


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message that is not empty, or the error's class if there is none.

    TensorFlow's messages have many lines; its attribute `message` leaves out the operation.
    """
    lines = str(getattr(error, "message", None) or error).splitlines()
    return next(filter(None, lines), type(error).__name__)

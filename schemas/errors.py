"""What a person reads when something goes wrong or is not installed, and of libraries no more than is of use."""

import contextlib
import importlib.util
import os
import re
import sys
import threading
from collections.abc import Iterator

WHOLE, SERVING = "dyqn-triage", "dyqn-triage-serving"
"""The distributions: everything, and what answers."""
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


def is_installed(module: str) -> bool:
    """Returns whether the package of a module is there, which is not imported."""
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def need(module: str, what: str, extra: str) -> None:
    """Checks that a module of an extra is installed.

    Args:
        module: such as `tensorflow`.
        what: the option or command that needs it, for the message.
        extra: what installs it.

    Raises:
        InputError: it is not.
    """
    if not is_installed(module):
        raise missing(module, what, extra)


def missing(module: str, what: str, extra: str) -> InputError:
    """Returns the error that `need` raises."""
    distribution = WHOLE if is_installed("trainer") else SERVING
    return InputError(f"{what} needs {module}: pip install '{distribution}[{extra}]'")


_REDIRECTING = threading.Lock()  # held by the thread that redirects standard error


@contextlib.contextmanager
def standard_error_without(*unwanted: bytes) -> Iterator[None]:
    """Removes lines that hold one of the texts from what is written to standard error while the block runs.

    For libraries that have no setting for it. Whatever other threads write meanwhile appears a moment later. The lines
    stay on systems without in-memory files.
    """
    with _REDIRECTING:
        try:
            sys.stderr.flush()
            held, shown = os.memfd_create("stderr"), os.dup(2)
        except (AttributeError, OSError):
            yield
            return
        os.dup2(held, 2)
        try:
            yield
        finally:
            os.dup2(shown, 2)
            os.lseek(held, 0, os.SEEK_SET)
            with open(held, "rb") as lines:
                os.write(shown, b"".join(line for line in lines if not any(text in line for text in unwanted)))
            os.close(shown)

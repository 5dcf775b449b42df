"""Which distribution is here, and what installs the rest."""

import importlib.util

from schemas.errors import InputError

WHOLE, SERVING = "dyqn-triage", "dyqn-triage-serving"
"""The distributions: everything, and what answers."""


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

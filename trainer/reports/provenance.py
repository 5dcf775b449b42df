"""Where the figures of a report come from: command, versions, machine and time."""

import datetime
import importlib.metadata
import pathlib
import platform
import shlex
import sys

from schemas import VERSION

_DISTRIBUTIONS = {"tensorflow": "tensorflow", "scikit_learn": "scikit-learn"}


def provenance() -> dict[str, str | None]:
    """Returns what made the figures, ready for JSON; None for the version of a distribution that is not installed."""
    return {
        "dyqn_triage": VERSION,
        **{name: _version(distribution) for name, distribution in _DISTRIBUTIONS.items()},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "command": shlex.join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]),
        "finished": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None

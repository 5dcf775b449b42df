"""The file held_out.npz of a job directory: the agent's outputs for vignettes that it has not learned from.

The name of an array is a field of `HeldOutOutputs`. It is written last, at the end of training.
"""

import pathlib

from schemas.errors import InputError
from trainer.graph.operating_point import HeldOutOutputs
from triage_runtime.storage import arrays_file

FILE = "held_out.npz"


def write(folder: pathlib.Path, held_out: HeldOutOutputs) -> None:
    """Writes the file.

    Raises:
        OSError: it cannot be written.
    """
    arrays_file.write(folder / FILE, held_out._asdict())


def remove(folder: pathlib.Path) -> None:
    """Removes the file if it exists."""
    (folder / FILE).unlink(missing_ok=True)


def read(folder: pathlib.Path) -> HeldOutOutputs | None:
    """Returns the agent's outputs for held-out vignettes; None if there is no such file.

    Raises:
        InputError: the file is damaged.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        return HeldOutOutputs(**arrays_file.read(path))
    except arrays_file.DAMAGE as error:
        raise InputError(f"{path}: damaged: train again in a new --job-dir") from error

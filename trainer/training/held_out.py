"""Two files of a job directory: the agent's outputs for held-out vignettes, and the operating point chosen with them.

The name of an array is a field of `HeldOutOutputs`. held_out.npz is written last, at the end of training.
"""

import dataclasses
import json
import pathlib

from schemas.errors import InputError
from trainer.graph.decide import NEUTRAL, OperatingPoint
from trainer.graph.operating_point import HeldOutOutputs
from triage_runtime.storage import arrays_file, whole_file
from triage_runtime.storage.whole_file import read_json

FILE = "held_out.npz"
OPERATING_POINT = "operating_point.json"


def write(folder: pathlib.Path, held_out: HeldOutOutputs, point: OperatingPoint) -> None:
    """Writes both files.

    Raises:
        OSError: they cannot be written.
    """
    with whole_file.replacing(folder / OPERATING_POINT) as file:
        file.write(json.dumps(dataclasses.asdict(point), indent=2) + "\n")
    arrays_file.write(folder / FILE, held_out._asdict())


def remove(folder: pathlib.Path) -> None:
    """Removes both files if they exist."""
    for name in (FILE, OPERATING_POINT):
        (folder / name).unlink(missing_ok=True)


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


def read_operating_point(folder: pathlib.Path) -> OperatingPoint:
    """Returns the operating point, the neutral one if there is no such file.

    Raises:
        InputError: the file is damaged.
    """
    path = folder / OPERATING_POINT
    if not path.exists():
        return NEUTRAL
    try:
        return OperatingPoint(**read_json(path))
    except TypeError as error:
        raise InputError(
            f"{path}: expected safety_weight, sure_enough and price: train again in a new --job-dir"
        ) from error

"""The files of a job directory that say what the agent makes of held-out vignettes, and which dial they chose.

held_out.npz stands there only beside dial.json, and once the training has ended.
"""

import dataclasses
import json
import pathlib
import zipfile

import numpy as np

from schemas import whole_file
from schemas.errors import InputError
from trainer.config import read_json
from trainer.dyqn.decision import NEUTRAL, Dial
from trainer.dyqn.dial import HeldOutOutputs

OUTPUTS = "held_out.npz"
DIAL = "dial.json"


def write(folder: pathlib.Path, outputs: HeldOutOutputs, dial: Dial) -> None:
    """Writes both files.

    Raises:
        OSError: they cannot be written.
    """
    with whole_file.replacing(folder / DIAL) as file:
        file.write(json.dumps(dataclasses.asdict(dial), indent=2) + "\n")
    with whole_file.replacing(folder / OUTPUTS, binary=True) as file:
        np.savez_compressed(file, **outputs._asdict())


def remove(folder: pathlib.Path) -> None:
    """Removes both files where they are there."""
    for name in (OUTPUTS, DIAL):
        (folder / name).unlink(missing_ok=True)


def read_outputs(folder: pathlib.Path) -> HeldOutOutputs | None:
    """Returns the outputs; None where there are none.

    Raises:
        InputError: the file is damaged.
    """
    path = folder / OUTPUTS
    if not path.exists():
        return None
    try:
        with np.load(path) as arrays:
            return HeldOutOutputs(**arrays)
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: damaged: train again in a new --job-dir") from error


def read_dial(folder: pathlib.Path) -> Dial:
    """Returns the dial, the neutral one where there is none.

    Raises:
        InputError: the file is damaged.
    """
    path = folder / DIAL
    if not path.exists():
        return NEUTRAL
    try:
        return Dial(**read_json(path))
    except TypeError as error:
        raise InputError(f"{path}: expected safety_weight and sure_enough: train again in a new --job-dir") from error

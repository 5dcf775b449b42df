"""The file of a job directory from which novelty is told: written whole or not at all, and checked when it is read."""

import pathlib
import struct
import zipfile
import zlib

import numpy as np

from schemas.errors import InputError, first_line
from trainer import whole_file
from trainer.novelty import Novelty

# What NumPy's and Python's readers raise on files with other bytes than were written.
_DAMAGE = (
    OSError, ValueError, KeyError, EOFError, TypeError, RuntimeError, MemoryError, struct.error, zlib.error,
    zipfile.BadZipFile,
)  # fmt: skip


def save(novelty: Novelty, path: pathlib.Path) -> None:
    """Writes the file that `load` reads, so that a kill leaves none or a whole one.

    Raises:
        OSError: it cannot be written.
    """
    with whole_file.replacing(path, binary=True) as file:
        np.savez_compressed(file, **novelty._asdict())


def load(path: pathlib.Path, evidence_count: int) -> Novelty:
    """Reads what `save` wrote.

    Args:
        path: of the file.
        evidence_count: E, of the vocabulary that the statistics must be of.

    Raises:
        InputError: it cannot be read, is no such file, or is of another vocabulary.
    """
    try:
        arrays = np.load(path, allow_pickle=False)
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise ValueError("one array alone")
        with arrays:
            parts = {name: arrays[name] for name in Novelty._fields}
        fault = _fault(parts, evidence_count)
    except _DAMAGE as error:
        fault = first_line(error)
    if fault:
        raise InputError(
            f"{path}: not the statistics that training wrote ({fault}): delete the file, and give the triage train "
            "command of this job again, which makes it anew"
        )
    return Novelty(**parts | {"moments": int(parts["moments"])})


def _fault(parts: dict[str, np.ndarray], evidence_count: int) -> str:
    """Returns why arrays are not those of a `Novelty`, "" where they are."""
    classes = parts["log_prior"].size
    shapes = {"log_prior": (classes,), "log_literals": (2 * evidence_count, classes + 1), "moments": ()}
    for name, shape in shapes.items():
        if parts[name].shape != shape:
            return f"{name} has the shape {list(parts[name].shape)}, not {list(shape)}"
    quantiles = parts["quantiles"]
    if quantiles.ndim != 2 or not quantiles.size:
        return f"quantiles has the shape {list(quantiles.shape)}, not [N, Q]"
    for name in ("log_prior", "log_literals", "quantiles"):
        if parts[name].dtype != np.float32 or not np.isfinite(parts[name]).all():
            return f"{name} is not float32 throughout, and finite"
    if (np.diff(quantiles, axis=1) < 0).any():
        return "quantiles do not ascend"
    return "" if parts["moments"] > 0 else "moments is not above 0"

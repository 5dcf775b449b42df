"""set_apart.npz of a job directory: the vignettes for promises alone, and what all others are known by.

A promise counts only on patients from whom nothing was learned. So an agent that starts from another one must not have
seen them there: each vignette is known by a number that follows from its evidence by name, and its decisions. Two
patients who are alike have the same number, so one of them counts as seen with the other one.
"""

import hashlib
import pathlib
from typing import NamedTuple

import numpy as np

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.triage import DECISION_LABELS
from trainer.dyqn.rollout import Slice
from trainer.dyqn.validation import Division
from trainer.vignettes.state import Vignettes
from triage_runtime.storage import arrays_file

FILE = "set_apart.npz"
_SEEN = "seen"


class SetApart(NamedTuple):
    """Vignettes that nothing was learned from."""

    vignettes: Slice
    whole: bool  # they list everything that a patient has


def prepare(folder: pathlib.Path, vignettes: Slice | None, whole: bool, seen: np.ndarray) -> None:
    """Writes the file, unless it exists.

    Args:
        folder: the job directory.
        vignettes: that are set apart; None if there are none.
        whole: whether they list everything that a patient has.
        seen: see `seen`.

    Raises:
        OSError: it cannot be written.
    """
    if not (folder / FILE).exists():
        apart = {} if vignettes is None else vignettes._asdict() | {"whole": np.array(whole)}
        arrays_file.write(folder / FILE, {_SEEN: seen, **apart})


def read(folder: pathlib.Path) -> SetApart | None:
    """Returns the vignettes that are set apart; None if there are none.

    Raises:
        InputError: the file is damaged.
    """
    arrays = _read(folder)
    if len(arrays) <= 1:
        return None
    return SetApart(Slice(*(arrays[name] for name in Slice._fields)), bool(arrays["whole"]))


def read_seen(folder: pathlib.Path) -> np.ndarray | None:
    """Returns what `seen` returned for the agent of a job directory; None if there is no such file.

    Raises:
        InputError: the file is damaged.
    """
    return _read(folder).get(_SEEN)


def _read(folder: pathlib.Path) -> dict[str, np.ndarray]:
    try:
        return arrays_file.read(folder / FILE)
    except FileNotFoundError:
        return {}
    except arrays_file.DAMAGE as error:
        raise InputError(f"{folder / FILE}: damaged: train again in a new --job-dir") from error


def seen(
    division: Division, vocabulary: Vocabulary, before: np.ndarray | None, apart_before: np.ndarray | None = None
) -> np.ndarray:
    """Returns the keys, sorted uint64, of all vignettes that an agent learns from or is calibrated by.

    Args:
        division: of the training split.
        vocabulary: of its codes.
        before: the same of the agent that it starts from; None if that does not say, or there is none.
        apart_before: the keys of what was set apart for that agent. It has not seen these, even if others are like
            them.

    Raises:
        InputError: that agent has seen vignettes that are set apart here.
    """
    known = [keys(part, vocabulary) for part in (division.learned, division.held_out) if part is not None]
    if division.apart is not None and before is not None:
        mine = keys(division.apart, vocabulary)
        there = np.isin(mine, before)
        same = apart_before is not None and np.array_equal(np.sort(mine), np.sort(apart_before))
        if there.any() and not same:
            raise InputError(
                f"--set-apart: the agent to start from has seen {there.sum():,} of the {len(there):,} vignettes set "
                "apart, or others just like them: a promise needs patients from whom nothing was learned: give data "
                "that it has not seen, or --set-apart 0"
            )
    return np.unique(np.concatenate([*known, *([] if before is None else [before])]))


def keys(vignettes: Vignettes, vocabulary: Vocabulary) -> np.ndarray:
    """Returns a number for each vignette, uint64 `[V]`: that of its evidence by name, in any order, and decisions."""
    present, absent, decided = (
        np.array([_number(f"{prefix}{name}") for name in names], np.uint64)
        for prefix, names in (("+", vocabulary.codes), ("-", vocabulary.codes), ("=", DECISION_LABELS))
    )
    codes = np.asarray(vignettes.signed_codes, np.int64)
    numbers = np.where(codes > 0, present[np.abs(codes) - 1], absent[np.abs(codes) - 1])
    evidence = np.add.reduceat(numbers, vignettes.offsets[:-1])
    return evidence + (vignettes.decision_counts.astype(np.uint64) * decided).sum(axis=1, dtype=np.uint64)


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")

"""set_apart.npz of a job directory: the vignettes for promises only, and the keys of all others.

A promise counts only on patients from whom nothing was learned. So an agent that starts from another one must not have
seen them there, nor have learned from what is held out: each vignette is known by a number that follows from its
evidence by name, and its decisions. Two patients who are alike have the same number, so one of them counts as seen with
the other one.
"""

import hashlib
import pathlib
from typing import NamedTuple

import numpy as np

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.triage import DECISION_LABELS
from trainer.data.state import Vignettes
from trainer.dyqn.calibrate import Division
from trainer.dyqn.rollout import Slice
from triage_runtime.storage import arrays_file

FILE = "set_apart.npz"
_SEEN, _LEARNED = "seen", "learned"


class SetApart(NamedTuple):
    """Vignettes that nothing was learned from."""

    vignettes: Slice
    whole: bool  # they list everything that a patient has


class Seen(NamedTuple):
    """The keys of the vignettes that an agent has seen, see `keys`; sorted uint64."""

    all: np.ndarray  # that it learns from or is calibrated by
    learned: np.ndarray  # that it learns from


def prepare(folder: pathlib.Path, vignettes: Slice | None, whole: bool, seen: Seen) -> None:
    """Writes the file, unless it exists.

    None stands for no `vignettes` set apart; `whole` vignettes list everything that a patient has.

    Raises:
        OSError: it cannot be written.
    """
    if not (folder / FILE).exists():
        apart = {} if vignettes is None else vignettes._asdict() | {"whole": np.array(whole)}
        arrays_file.write(folder / FILE, {_SEEN: seen.all, _LEARNED: seen.learned, **apart})


def read(folder: pathlib.Path) -> SetApart | None:
    """Returns the vignettes that are set apart; None if there are none.

    Raises:
        InputError: the file is missing or damaged.
    """
    arrays = _read(folder)
    if "whole" not in arrays:
        return None
    return SetApart(Slice(*(arrays[name] for name in Slice._fields)), bool(arrays["whole"]))


def read_seen(folder: pathlib.Path) -> Seen:
    """Returns the keys that the agent of a job directory has seen; raises as `read`."""
    arrays = _read(folder)
    return Seen(arrays[_SEEN], arrays[_LEARNED])


def _read(folder: pathlib.Path) -> dict[str, np.ndarray]:
    with arrays_file.damage_named(folder / FILE, "train again in a new --job-dir"):
        return arrays_file.read(folder / FILE)


def seen(
    division: Division, vocabulary: Vocabulary, before: Seen | None, apart_before: np.ndarray | None = None
) -> Seen:
    """Returns what an agent sees.

    Args:
        division: what it learns from, and what it does not.
        vocabulary: by whose codes vignettes have keys, whatever the order of the cells.
        before: by the agent that it starts from; None if there is none.
        apart_before: the keys of what was set apart for that agent. It has not seen these, even if others are like
            them.

    Raises:
        InputError: that agent has seen vignettes that are set apart here.
    """
    learned = keys(division.learned, vocabulary)
    calibrated = learned[:0] if division.held_out is None else keys(division.held_out, vocabulary)
    if division.apart is not None and before is not None:
        mine = keys(division.apart, vocabulary)
        there = np.isin(mine, before.all)
        same = apart_before is not None and np.array_equal(np.sort(mine), np.sort(apart_before))
        if there.any() and not same:
            raise InputError(
                f"--set-apart: the agent to start from has seen {there.sum():,} of the {len(there):,} vignettes set "
                "apart, or others just like them: a promise needs patients from whom nothing was learned: give data "
                "that it has not seen, or --set-apart 0"
            )
    if before is not None:
        calibrated, learned = np.append(calibrated, before.all), np.append(learned, before.learned)
    return Seen(np.union1d(learned, calibrated), np.unique(learned))


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

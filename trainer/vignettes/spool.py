"""Keeps accepted vignettes on disk between the two passes of `triage prepare`, so that memory use is constant.

The first pass must see all vignettes before the second can draw the test split.
"""

import pathlib
import sqlite3
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import IO, NamedTuple

import tensorflow as tf

from schemas.directories import SPLITS
from schemas.evidence import Vocabulary
from schemas.triage import NUM_DECISIONS
from trainer.vignettes.split import majority
from trainer.vignettes.tfrecord import encode_example, read_records
from trainer.vignettes.vignette import Vignette

_SUMMARY = struct.Struct(f"<b4I{NUM_DECISIONS}B")
_DRAWN = -1
_SUMMARIES_AT_ONCE = 4_096


class Summary(NamedTuple):
    """What the split and the statistics need from a vignette."""

    split: str | None  # None: will be drawn
    symptoms_present: int
    symptoms_absent: int
    risk_factors_present: int
    risk_factors_absent: int
    decision_counts: tuple[int, ...]  # [4]


class IdRegistry:
    """Remembers where each vignette id was first used, in a database on disk.

    Args:
        path: a new file for the database.
    """

    def __init__(self, path: pathlib.Path):
        self._database = sqlite3.connect(path, isolation_level=None)
        # The file is temporary: nothing needs to survive a crash.
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        # A single transaction: with one for each id, an id would cost ten times as much.
        self._database.execute("BEGIN")
        self._database.execute("CREATE TABLE places (id TEXT PRIMARY KEY, place TEXT) WITHOUT ROWID")

    def claim(self, vignette_id: str, place: str) -> str | None:
        """Returns None if the id is new, otherwise the place of its first use."""
        if self._database.execute("INSERT OR IGNORE INTO places VALUES (?, ?)", (vignette_id, place)).rowcount:
            return None
        return self._database.execute("SELECT place FROM places WHERE id = ?", (vignette_id,)).fetchone()[0]

    def close(self) -> None:
        """Closes the database; the file stays."""
        self._database.close()


class Spool:
    """Takes vignettes in the first pass, and returns them in the same order in the second.

    Args:
        directory: an empty directory for its files.
        vocabulary: distinguishes symptoms from risk factors.
    """

    def __init__(self, directory: pathlib.Path, vocabulary: Vocabulary):
        self._risk_factors = frozenset(entry.code for entry in vocabulary if entry.kind == "risk_factor")
        self._records_path = directory / "vignettes.tfrecord"
        self._summaries_path = directory / "summaries"
        self._records = tf.io.TFRecordWriter(str(self._records_path))
        self._summaries = self._summaries_path.open("wb")
        self.count = 0
        self.given = dict.fromkeys(SPLITS, 0)
        """Number of vignettes with a given split, by split."""
        self.strata = [0] * NUM_DECISIONS
        """Number of vignettes whose split will be drawn, by majority decision."""

    def __enter__(self) -> "Spool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the first pass."""
        self._records.close()
        self._summaries.close()

    def add(self, vignette: Vignette) -> None:
        """Appends a vignette."""
        summary = self._summarise(vignette)
        split = _DRAWN if summary.split is None else SPLITS.index(summary.split)
        self._summaries.write(_SUMMARY.pack(split, *summary[1:5], *summary.decision_counts))
        self._records.write(encode_example(vignette))
        self.count += 1
        if summary.split is None:
            self.strata[majority(summary.decision_counts)] += 1
        else:
            self.given[summary.split] += 1

    def __iter__(self) -> Iterator[tuple[Summary, bytes]]:
        """Yields each vignette's summary and serialized tf.Example, after `close`."""
        with self._summaries_path.open("rb") as file:
            yield from zip(_read_summaries(file), read_records(self._records_path), strict=True)

    def _summarise(self, vignette: Vignette) -> Summary:
        risks_present = sum(code in self._risk_factors for code in vignette.present)
        risks_absent = sum(code in self._risk_factors for code in vignette.absent)
        return Summary(
            split=vignette.split,
            symptoms_present=len(vignette.present) - risks_present,
            symptoms_absent=len(vignette.absent) - risks_absent,
            risk_factors_present=risks_present,
            risk_factors_absent=risks_absent,
            decision_counts=vignette.decision_counts,
        )


def _read_summaries(file: IO[bytes]) -> Iterator[Summary]:
    """Yields the summaries in a file of a spool."""
    while chunk := file.read(_SUMMARY.size * _SUMMARIES_AT_ONCE):
        for split, *counts in _SUMMARY.iter_unpack(chunk):
            given = None if split == _DRAWN else SPLITS[split]
            yield Summary(given, counts[0], counts[1], counts[2], counts[3], tuple(counts[4:]))

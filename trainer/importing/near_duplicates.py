"""Finds vignettes of one split that are also, or almost, in the other.

Two vignettes are *the same* if their state vectors (trainer.vignettes.state) are equal, and *one apart* if the vectors
differ in exactly one cell (one has a piece of evidence that the other lacks, or it is present in one and absent in the
other) and both have at least `MINIMUM_PIECES` pieces of evidence; for shorter vignettes, that would mean little.

Each state has a signature, the sum of random 64-bit keys of its signed codes, so that the signatures of all states one
apart from it follow by a subtraction or two. Signatures of the indexed states, and of those with one piece taken out,
are sorted once. States with equal signatures are compared cell by cell, so that the answer is exact. Time and memory
grow with the pieces of evidence, not with the number of pairs of vignettes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MINIMUM_PIECES = 4

State = tuple[int, ...]
"""Signed codes (trainer.vignettes.state) in ascending order, each cell at most once."""


class Matches(NamedTuple):
    """For each indexed state, the position of the first matching state, -1 if there is none; int `[T]` each."""

    same: np.ndarray
    one_apart: np.ndarray


class _Rows(NamedTuple):
    """S states as compressed sparse rows."""

    offsets: np.ndarray  # int64 [S + 1]
    codes: np.ndarray  # int64 [C]: signed codes
    owners: np.ndarray  # int64 [C]: row of each code
    signatures: np.ndarray  # uint64 [S]

    @property
    def sizes(self) -> np.ndarray:
        """Pieces of evidence, int64 `[S]`."""
        return np.diff(self.offsets)


class _Pairs(NamedTuple):
    """Rows of the index and rows of a query whose signatures agree, int64 `[P]` both."""

    indexed: np.ndarray
    asked: np.ndarray


class _Table:
    """Signatures, sorted, and the row that each belongs to."""

    def __init__(self, signatures: np.ndarray, owners: np.ndarray):
        order = np.argsort(signatures)
        self._signatures, self._owners = signatures[order], owners[order]

    def pairs(self, signatures: np.ndarray, owners: np.ndarray) -> _Pairs:
        """Returns all pairs of a row here and a row among `owners` with equal signatures."""
        first = np.searchsorted(self._signatures, signatures, side="left")
        counts = np.searchsorted(self._signatures, signatures, side="right") - first
        starts: np.ndarray = np.repeat(first - (np.cumsum(counts) - counts), counts)
        return _Pairs(self._owners[starts + np.arange(counts.sum())], np.repeat(owners, counts))


class NearDuplicates:
    """Holds states, and finds equal and similar ones among others.

    Args:
        states: T of them.
        evidence_count: E, the number of state cells.
    """

    def __init__(self, states: Sequence[State], evidence_count: int):
        self._evidence_count = evidence_count
        keys = np.random.default_rng(0).integers(2**64, size=2 * evidence_count + 1, dtype=np.uint64)
        self._keys = keys  # key of signed code c at c + E
        unique: dict[State, int] = {}
        self._row_of = np.array([unique.setdefault(state, len(unique)) for state in states], np.int64)  # [T]
        self._rows = self._encode(list(unique))
        self._whole = _Table(self._rows.signatures, np.arange(len(unique)))
        self._reduced = _Table(*self._with_one_less(self._rows))

    def find(self, states: Sequence[State]) -> Matches:
        """Returns the positions in `states` that match the indexed states."""
        unique: dict[State, int] = {}
        for position, state in enumerate(states):
            unique.setdefault(state, position)
        rows = self._encode(list(unique))
        positions = np.fromiter(unique.values(), np.int64, len(unique))
        everyone = np.arange(len(unique))
        long = np.flatnonzero(rows.sizes >= MINIMUM_PIECES)
        one_apart = (
            self._whole.pairs(*self._with_one_less(rows)),
            self._whole.pairs(*self._with_one_flipped(rows)),
            self._reduced.pairs(rows.signatures[long], long),
        )
        return Matches(
            self._first(self._whole.pairs(rows.signatures, everyone), rows, positions, 0),
            self._first(_Pairs(*map(np.concatenate, zip(*one_apart, strict=True))), rows, positions, 1),
        )

    def _encode(self, states: Sequence[State]) -> _Rows:
        sizes = np.fromiter(map(len, states), np.int64, len(states))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        codes = np.fromiter((code for state in states for code in state), np.int64, offsets[-1])
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(self._key(codes), dtype=np.uint64)])  # modulo 2^64
        return _Rows(offsets, codes, np.repeat(np.arange(len(states)), sizes), sums[offsets[1:]] - sums[offsets[:-1]])

    def _key(self, codes: np.ndarray) -> np.ndarray:
        return self._keys[codes + self._evidence_count]

    def _with_one_less(self, rows: _Rows) -> tuple[np.ndarray, np.ndarray]:
        """Returns the signature of each long state without each of its pieces, and the row that it is of."""
        chosen = rows.sizes[rows.owners] > MINIMUM_PIECES
        owners = rows.owners[chosen]
        return rows.signatures[owners] - self._key(rows.codes[chosen]), owners

    def _with_one_flipped(self, rows: _Rows) -> tuple[np.ndarray, np.ndarray]:
        """Returns the signature of each long state with each of its pieces negated, and the row that it is of."""
        chosen = rows.sizes[rows.owners] >= MINIMUM_PIECES
        owners, codes = rows.owners[chosen], rows.codes[chosen]
        return rows.signatures[owners] - self._key(codes) + self._key(-codes), owners

    def _first(self, pairs: _Pairs, rows: _Rows, positions: np.ndarray, distance: int) -> np.ndarray:
        """Returns for each indexed state the first position that is `distance` cells away, -1 for none, `[T]`."""
        right = self._differing_cells(pairs, rows) == distance
        if distance:
            pieces = np.minimum(self._rows.sizes[pairs.indexed], rows.sizes[pairs.asked])
            right &= pieces >= MINIMUM_PIECES
        none = np.iinfo(np.int64).max
        first: np.ndarray = np.full(len(self._rows.signatures), none)
        np.minimum.at(first, pairs.indexed[right], positions[pairs.asked[right]])
        return np.where(first == none, -1, first)[self._row_of]

    def _differing_cells(self, pairs: _Pairs, rows: _Rows) -> np.ndarray:
        """Returns in how many cells the states of each pair differ, int64 `[P]`."""
        width = 2 * self._evidence_count + 1
        both = [_pieces(self._rows, pairs.indexed), _pieces(rows, pairs.asked)]
        entries = np.concatenate([pair * width + code + self._evidence_count for pair, code in both])
        entries, times = np.unique(entries, return_counts=True)
        pair, code = np.divmod(entries[times == 1], width)  # codes that only one of the two has
        cells = np.unique(pair * width + np.abs(code - self._evidence_count))
        return np.bincount(cells // width, minlength=len(pairs.indexed))


def _pieces(rows: _Rows, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the codes of the chosen rows, and for each the position of its row in `chosen`."""
    sizes = rows.sizes[chosen]
    starts: np.ndarray = np.repeat(rows.offsets[chosen] - (np.cumsum(sizes) - sizes), sizes)
    return np.repeat(np.arange(len(chosen)), sizes), rows.codes[starts + np.arange(sizes.sum())]

"""The expanded data set D_pow: parts of the vignettes' evidence (paper, "The partially-observed model").

A vignette V of at most ten pieces of evidence gives one row for each of its 2^|V| evidence sets, including the empty
and the full one. Of a longer vignette, k = |V| - 10 pieces v_1 .. v_k are drawn; the powerset is taken over the other
ten, and each of its sets is joined with each of k growths. All rows keep the decisions of the vignette.

The paper is ambiguous about the growths: its rule ("k vignettes for each of the element of the powerset") and formula,
max(1, |V| - 10) * 2^min(|V|, 10), give k of them, its example, |V| = 12, lists k + 1: none, {v_1} and {v_1, v_2}. We
follow the formula, with the growths {v_1}, {v_1, v_2}, .. {v_1 .. v_k}: leaving out "none" makes the full evidence a
row of every vignette. The empty set is a row of vignettes of at most ten pieces.
"""

import hashlib
from collections.abc import Iterator

from trainer.simulation.draws import Draws
from trainer.vignettes.vignette import Vignette

POWERSET_PIECES = 10
"""Maximum number of pieces of evidence that the powerset is taken over."""

_Pieces = tuple[tuple[str, ...], tuple[str, ...]]
"""Codes that are present, codes that are absent."""


def row_count(evidence_count: int) -> int:
    """Returns how many rows a vignette of `evidence_count` pieces of evidence gives."""
    return max(1, evidence_count - POWERSET_PIECES) * 2 ** min(evidence_count, POWERSET_PIECES)


def expand(vignette: Vignette, seed: int, sample: float = 1.0) -> Iterator[Vignette]:
    """Yields the rows of a vignette, no evidence set twice.

    Args:
        vignette: its id seeds the random draws, so that its place among others does not matter.
        seed: 0 or more, below 2^64; of the further pieces and of the sample.
        sample: in (0, 1]: the probability of drawing each row. A row is the same in every sample.

    Returns:
        `row_count` rows if `sample` is 1. Row n of vignette "v17" has the id "v17/n": its lowest ten bits are the
        pieces of the powerset, the others the growth. The last row is the full evidence.
    """
    pieces = _pieces(vignette)
    draws = Draws(seed, id_number(vignette.vignette_id))
    shuffled = draws.uniform(len(pieces)).argsort(kind="stable").tolist()
    further = shuffled[: max(0, len(pieces) - POWERSET_PIECES)]
    drawn = draws.uniform(row_count(len(pieces))) <= sample
    for number, (present, absent) in enumerate(_evidence_sets(pieces, further)):
        if drawn[number]:
            row_id = f"{vignette.vignette_id}/{number}"
            yield Vignette(row_id, present, absent, vignette.decisions, vignette.split, vignette.tags)


def id_number(vignette_id: str) -> int:
    """Returns a number in [0, 2^64) for an id, the same in every process (unlike Python's `hash`)."""
    return int.from_bytes(hashlib.sha256(vignette_id.encode()).digest()[:8], "big")


def _pieces(vignette: Vignette) -> list[_Pieces]:
    return [((code,), ()) for code in vignette.present] + [((), (code,)) for code in vignette.absent]


def _evidence_sets(pieces: list[_Pieces], further: list[int]) -> Iterator[_Pieces]:
    """Yields the sets, growth by growth; `further` are the places of v_1 .. v_k."""
    subsets: list[_Pieces] = [((), ())]
    for place, piece in enumerate(pieces):
        if place not in further:
            subsets += [_joined(subset, piece) for subset in subsets]
    growths: list[_Pieces] = [((), ())]
    for place in further:
        growths.append(_joined(growths[-1], pieces[place]))
    for growth in growths[1:] or growths:
        for subset in subsets:
            yield _joined(subset, growth)


def _joined(first: _Pieces, second: _Pieces) -> _Pieces:
    return first[0] + second[0], first[1] + second[1]

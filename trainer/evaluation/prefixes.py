"""How triage improves as evidence comes in: a triage is forced after 1, 2, ... pieces of evidence.

The curves of the paper's appendix "Non-Calibrated versus Calibrated voting classifier", for anything that gives each
triage decision a value: a Q-network or a classifier. A vignette contributes to the points up to its own number of
pieces of evidence, so later points are about vignettes with more evidence.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from schemas.triage import NUM_DECISIONS
from trainer.evaluation.estimates import Estimate
from trainer.evaluation.metrics import estimate, urgency_range
from trainer.vignettes import state
from trainer.vignettes.state import Vignettes

STATES_AT_ONCE = 4096

Triage = Callable[[np.ndarray], np.ndarray]
"""From states float32 `[B, E]` in {-1, 0, 1} to a value of each triage decision float `[B, 4]`; the highest wins."""


class EvidencePoint(NamedTuple):
    """Triage forced after the same number of pieces of evidence, on all vignettes that have so many."""

    evidence: int
    vignettes: int
    appropriateness: Estimate
    safety: Estimate
    best_value: Estimate  # the highest of the four values


class _Judged(NamedTuple):
    """Means over the evidence orders, one for each prefix: row v, k pieces at `offsets[v] + k - 1`; float64 each."""

    appropriateness: np.ndarray
    safety: np.ndarray
    best_value: np.ndarray


def metrics_by_evidence(
    vignettes: Vignettes, evidence_count: int, triage: Triage, orders: Iterable[int], seed: int
) -> list[EvidencePoint]:
    """Returns the metrics after k = 1, 2, ... pieces of evidence, up to the most that a vignette has.

    Args:
        vignettes: at least one, each with evidence; `STATES_AT_ONCE` dense states are in memory at a time.
        evidence_count: E, the width of the state.
        triage: gives the decisions their values. Equal values go to the more urgent decision.
        orders: seeds of random evidence orders, one or more; the metrics of a vignette are means over them.
        seed: of the bootstrap over vignettes.

    Raises:
        ValueError: `triage` returns values of another shape.
    """
    judged = _judge(vignettes, evidence_count, triage, orders)
    counts = np.diff(vignettes.offsets)
    points = []
    for evidence in range(1, int(counts.max()) + 1):
        places = vignettes.offsets[:-1][counts >= evidence] + evidence - 1
        estimates = (estimate(values[places], seed) for values in judged)
        points.append(EvidencePoint(evidence, len(places), *estimates))
    return points


def _judge(vignettes: Vignettes, evidence_count: int, triage: Triage, orders: Iterable[int]) -> _Judged:
    rows: np.ndarray = np.repeat(np.arange(len(vignettes.decision_counts)), np.diff(vignettes.offsets))
    most, least = urgency_range(vignettes.decision_counts)
    sums = _Judged(*np.zeros([3, len(rows)]))
    played = 0
    for order in orders:
        played += 1
        codes = _shuffled(vignettes.signed_codes, rows, order)
        for start in range(0, len(rows), STATES_AT_ONCE):
            here = slice(start, start + STATES_AT_ONCE)
            values = triage(_prefix_states(codes, vignettes.offsets, rows, here, evidence_count))
            if values.shape != (len(rows[here]), NUM_DECISIONS):
                raise ValueError(f"expected values [{len(rows[here])}, {NUM_DECISIONS}], found {list(values.shape)}")
            decisions = values.argmax(axis=1)  # ties: the first, which is the more urgent one
            safe = decisions <= least[rows[here]]
            sums.appropriateness[here] += safe & (decisions >= most[rows[here]])
            sums.safety[here] += safe
            sums.best_value[here] += values.max(axis=1)
    return _Judged(*(column / played for column in sums))


def _shuffled(signed_codes: np.ndarray, rows: np.ndarray, order: int) -> np.ndarray:
    """Returns the signed codes; those of each vignette are in a uniformly random order."""
    keys = np.random.default_rng(order).random(len(rows))
    return signed_codes[np.lexsort((keys, rows))]


def _prefix_states(
    codes: np.ndarray, offsets: np.ndarray, rows: np.ndarray, here: slice, evidence_count: int
) -> np.ndarray:
    """Returns the states `[B, E]`: for each place in `here`, its vignette's codes up to that place."""
    ends = np.arange(here.start, min(here.stop, len(rows)))
    starts = offsets[rows[here]]
    places = starts[:, np.newaxis] + np.arange((ends - starts).max() + 1)  # [B, W]
    known = places <= ends[:, np.newaxis]
    signed = np.where(known, codes[np.where(known, places, 0)], 0).astype(np.int32)
    return state.from_signed_codes(signed, evidence_count).numpy()

"""How triage improves as evidence comes in: a triage is forced after 1, 2, ... pieces of evidence.

The curves of the paper's appendix "Non-Calibrated versus Calibrated voting classifier", for anything that gives each
triage decision a value: a Q-network or a classifier. A vignette contributes to the points up to its own number of
pieces of evidence, so later points are about vignettes with more evidence.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from trainer.evaluation.estimates import Estimate
from trainer.evaluation.metrics import estimate, urgency_range
from trainer.vignettes import state
from trainer.vignettes.state import Vignettes

STATES_AT_ONCE = 4096


class EvidencePoint(NamedTuple):
    """Triage forced after the same number of pieces of evidence, on all vignettes that have so many."""

    evidence: int
    vignettes: int
    appropriateness: Estimate
    safety: Estimate
    best_value: Estimate  # the highest of the four values


def prefix_outputs(
    network: Callable[[np.ndarray], np.ndarray], vignettes: Vignettes, evidence_count: int, orders: Iterable[int]
) -> np.ndarray:
    """Returns the outputs of a network after 1, 2, ... all pieces of evidence of each vignette, float `[K, R, O]`.

    The R states of a vignette with n pieces are n rows; row v, k pieces, is `offsets[v] + k - 1`.

    Args:
        network: from states float32 `[B, E]` to outputs `[B, O]`, of `STATES_AT_ONCE` states at a time.
        vignettes: at least one, each with evidence.
        evidence_count: E, the width of the state.
        orders: seeds of K random evidence orders.
    """
    rows: np.ndarray = np.repeat(np.arange(len(vignettes.decision_counts)), np.diff(vignettes.offsets))
    outputs = []
    for order in orders:
        codes = _shuffled(vignettes.signed_codes, rows, order)
        parts = (slice(start, start + STATES_AT_ONCE) for start in range(0, len(rows), STATES_AT_ONCE))
        states = (_prefix_states(codes, vignettes.offsets, rows, part, evidence_count) for part in parts)
        outputs.append(np.concatenate([np.asarray(network(each)) for each in states]))
    return np.stack(outputs)


def metrics_by_evidence(values: np.ndarray, vignettes: Vignettes, seed: int) -> list[EvidencePoint]:
    """Returns the metrics after k = 1, 2, ... pieces of evidence, up to the most that a vignette has.

    Args:
        values: float `[K, R, 4]` of each triage decision, in the states of `prefix_outputs`. Equal values go to the
            more urgent decision.
        vignettes: of these states; the metrics of each are means over the K orders.
        seed: of the bootstrap over vignettes.
    """
    counts = np.diff(vignettes.offsets)
    most, least = np.repeat(urgency_range(vignettes.decision_counts), counts, axis=1)  # [R]
    decisions = values.argmax(axis=2)
    safe = decisions <= least
    judged = (safe & (decisions >= most), safe, values.max(axis=2))
    points = []
    for evidence in range(1, int(counts.max()) + 1):
        places = vignettes.offsets[:-1][counts >= evidence] + evidence - 1
        estimates = (estimate(each[:, places].mean(axis=0, dtype=np.float64), seed) for each in judged)
        points.append(EvidencePoint(evidence, len(places), *estimates))
    return points


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

"""Results of operating points on vignettes that the deciding network has not learned from."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from schemas.triage import NUM_DECISIONS, Action
from trainer.graph import rewards
from trainer.graph.decide import OperatingPoint, best_triage, handed_over, would_ask
from triage_runtime.promise import HANDED_OVER

FLOORS = (None, 0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 0.99)
"""Least values of asking, from the least to the most careful; none means that only Q(ask) counts."""
HAND_OVER_FROM = (0.05, 0.1, 0.15, 0.2, 0.3)
"""The probabilities of Red from which a promise may hand over to a person."""


class HeldOutOutputs(NamedTuple):
    """A network's outputs for vignettes that it has not learned from, after 1, 2, ... all pieces within reach.

    Those of each half of the vignettes are by a calibration on the other half.
    """

    q: np.ndarray  # float32 [R, A], vignette by vignette
    appropriate: np.ndarray  # float32 [R, 4], or [R, 0] of a network without probabilities
    sizes: np.ndarray  # int64 [M], pieces of each vignette that questions can reach; their sum is R
    decision_counts: np.ndarray  # [M, 4]


class Quality(NamedTuple):
    """The results of an operating point on held-out vignettes; shares in [0, 1]."""

    appropriateness: float
    safety: float
    over_triage: float
    red_found: float | None
    """Share decided Red of the vignettes with the majority decision Red, ties included; None if there are none."""
    evidence: float
    """Share of the evidence within reach that is known at the decision."""


def quality(held_out: HeldOutOutputs, point: OperatingPoint) -> Quality:
    """Returns the results of an operating point, which decides each vignette where it stops, or at the last piece."""
    known = stops(held_out, point)
    counts, decisions = held_out.decision_counts, decisions_at(held_out, known)
    right, no_less = _judged(counts, decisions)
    red = counts.argmax(axis=1) == Action.RED
    return Quality(
        appropriateness=float(right.mean()),
        safety=float(no_less.mean()),
        over_triage=float((no_less & ~right).mean()),
        red_found=float((decisions[red] == Action.RED).mean()) if red.any() else None,
        evidence=float(known.sum() / held_out.sizes.sum()),
    )


def _judged(decision_counts: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    """Returns whether each of `decisions` `[M]` was appropriate, and whether it was safe; bool `[2, M]`."""
    rules = (rewards.appropriate, rewards.safe)
    return np.array([_taken(rule(decision_counts).numpy(), decisions) for rule in rules])


def stops(held_out: HeldOutOutputs, point: OperatingPoint) -> np.ndarray:
    """Returns int64 `[M]`, the pieces of evidence that are known when the agent stops asking."""
    ends = np.cumsum(held_out.sizes)
    stopping = ~would_ask(held_out.q, point).numpy()
    stopping[ends - 1] = True
    places = np.flatnonzero(stopping)
    starts = ends - held_out.sizes
    return places[np.searchsorted(places, starts)] - starts + 1


def decisions_at(held_out: HeldOutOutputs, known: np.ndarray) -> np.ndarray:
    """Returns int32 `[M]`, the triage decision of each vignette after the first `known` `[M]` pieces of evidence."""
    return best_triage(held_out.q[_places(held_out, known)]).numpy()


def leaving(held_out: HeldOutOutputs, point: OperatingPoint) -> np.ndarray:
    """Returns int32 `[M]`, the decision that each vignette gets, or `HANDED_OVER`."""
    known = stops(held_out, point)
    heads, decisions = {"appropriate": held_out.appropriate[_places(held_out, known)]}, decisions_at(held_out, known)
    return np.where(handed_over(heads, decisions, point), HANDED_OVER, decisions)


def candidates(own: OperatingPoint) -> list[OperatingPoint]:
    """Returns the operating points among which a promise is looked for, the agent's `own` first."""
    return list(dict.fromkeys([own, *(OperatingPoint(floor) for floor in FLOORS)]))


def handing_over(points: Sequence[OperatingPoint]) -> list[OperatingPoint]:
    """Returns `points` with each of `HAND_OVER_FROM`."""
    return [dataclasses.replace(point, hand_over_from=red) for point in points for red in HAND_OVER_FROM]


def worth(held_out: HeldOutOutputs, point: OperatingPoint, price: float) -> float:
    """Returns the mean Q-value of decisions less the `price` of the questions.

    A case that is handed over is worth nothing, so that of points that keep a promise the one that decides most wins.
    """
    known, decisions = stops(held_out, point), leaving(held_out, point)
    values = held_out.q[_places(held_out, known), :NUM_DECISIONS]
    decided = decisions != HANDED_OVER
    return float((_taken(values, np.maximum(decisions, 0)) * decided).mean() - price * known.mean())


def _places(held_out: HeldOutOutputs, known: np.ndarray) -> np.ndarray:
    """Returns the rows int64 `[M]` with the first `known` `[M]` pieces of evidence of each vignette."""
    return np.cumsum(held_out.sizes) - held_out.sizes + known - 1


def _taken(holds: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    return np.take_along_axis(holds, decisions[:, np.newaxis], axis=1)[:, 0]

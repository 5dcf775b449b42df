"""Chooses when to stop and how to weigh safety, on vignettes that the deciding network has not learned from."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas.triage import Action
from trainer.graph import rewards
from trainer.graph.decide import (
    NEUTRAL,
    PRICES,
    OperatingPoint,
    appropriate,
    best_triage,
    handed_over,
    safe,
    utilities,
    would_ask,
)
from triage_runtime.promise import HANDED_OVER

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
"""The safety weights to choose from."""
PROMISE_WEIGHTS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Those among which a promise is looked for."""
HAND_OVER_FROM = (0.05, 0.1, 0.15, 0.2, 0.3)
"""The probabilities of Red from which a promise may hand over to a person."""
CHOICES = (*PRICES, *(math.sqrt(low * high) for low, high in itertools.pairwise(PRICES)))
"""The prices of a question to choose from."""
THRESHOLDS = (0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995)
"""The stopping thresholds to choose from, besides none; by a large safety weight, most decisions are worth over .96."""
BUDGET = 0.01
"""P(appropriate), and likewise P(safe), that an operating point may cost against the best that asks for everything."""
RED_BUDGET = 0.02
"""The same for the Red share, which is the share decided Red of the patients for whom Red is appropriate."""


class HeldOutOutputs(NamedTuple):
    """A network's outputs for vignettes that it has not learned from, after 1, 2, ... all pieces within reach.

    Of interviews about cards, it also has those where a caller has only what stands on the card, in a random order.
    """

    outputs: np.ndarray  # float32 [R, O], vignette by vignette
    sizes: np.ndarray  # int64 [M], pieces of each vignette that questions can reach; their sum is R
    decision_counts: np.ndarray  # [M, 4]
    card_outputs: np.ndarray = np.zeros([0, 0], np.float32)  # [C, O], as `outputs`
    card_sizes: np.ndarray = np.zeros(0, np.int64)  # [M], as `sizes`, or [0]

    @property
    def plays(self) -> "list[HeldOutOutputs]":
        """Each way in which the evidence becomes known, by itself."""
        first = HeldOutOutputs(*self[:3])
        if not len(self.card_sizes):
            return [first]
        return [first, HeldOutOutputs(self.card_outputs, self.card_sizes, self.decision_counts)]


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
    stopped = _stopped(held_out, point)
    counts, decisions = held_out.decision_counts, stopped.decisions
    right, no_less = _judged(counts, decisions)
    red = counts.argmax(axis=1) == Action.RED
    return Quality(
        appropriateness=float(right.mean()),
        safety=float(no_less.mean()),
        over_triage=float((no_less & ~right).mean()),
        red_found=float((decisions[red] == Action.RED).mean()) if red.any() else None,
        evidence=float(stopped.known.sum() / held_out.sizes.sum()),
    )


def _judged(decision_counts: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    """Returns whether each of `decisions` `[M]` was appropriate, and whether it was safe; bool `[2, M]`."""
    rules = (rewards.appropriate, rewards.safe)
    return np.array([_taken(rule(decision_counts).numpy(), decisions) for rule in rules])


def stops(held_out: HeldOutOutputs, point: OperatingPoint) -> np.ndarray:
    """Returns int64 `[M]`, the pieces of evidence that are known when the agent stops asking."""
    ends = np.cumsum(held_out.sizes)
    stopping = ~would_ask(held_out.outputs, point).numpy()
    stopping[ends - 1] = True
    places = np.flatnonzero(stopping)
    starts = ends - held_out.sizes
    return places[np.searchsorted(places, starts)] - starts + 1


def decisions_at(held_out: HeldOutOutputs, known: np.ndarray, point: OperatingPoint) -> np.ndarray:
    """Returns int32 `[M]`, the triage decision of each vignette after the first `known` `[M]` pieces of evidence."""
    return best_triage(_outputs_at(held_out, known), point).numpy()


def leaving(held_out: HeldOutOutputs, point: OperatingPoint) -> np.ndarray:
    """Returns int32 `[M]`, the decision with which each vignette leaves, or `HANDED_OVER`."""
    outputs = tf.constant(_outputs_at(held_out, stops(held_out, point)))
    decisions = best_triage(outputs, point).numpy()
    return np.where(handed_over(outputs, decisions, point), HANDED_OVER, decisions)


class _Stopped(NamedTuple):
    """Where an agent stops, and what it decides there."""

    known: np.ndarray  # int64 [M], pieces of evidence
    decisions: np.ndarray  # int32 [M]
    appropriate: float
    """Mean over the vignettes, by the network's own probabilities, as is `safe`."""
    safe: float
    red: float
    """The share of the patients for whom Red is appropriate who are decided Red, by the same probabilities."""


def _stopped(held_out: HeldOutOutputs, point: OperatingPoint) -> _Stopped:
    known = stops(held_out, point)
    outputs = _outputs_at(held_out, known)
    decisions = best_triage(outputs, point).numpy()
    right, no_less = appropriate(outputs), safe(outputs)
    red = right[:, Action.RED]
    red_sensitivity = float(red[decisions == Action.RED].sum() / (red.sum() or 1))
    mean_right, mean_safe = (float(_taken(each, decisions).mean()) for each in (right, no_less))
    return _Stopped(known, decisions, mean_right, mean_safe, red_sensitivity)


class _Candidate(NamedTuple):
    """An operating point, and what it reaches in each of `HeldOutOutputs.plays`."""

    operating_point: OperatingPoint
    values: np.ndarray
    """P(appropriate), P(safe) and the known pieces of evidence as a negative number, `[N, 3]`: more is better."""
    red: np.ndarray  # float64 [N], see `_Stopped`
    on_cards: list[np.ndarray]
    """For each play after the first: whether each decision was appropriate, and whether it was safe, bool `[2, M]`."""

    def dominates(self, other: "_Candidate") -> bool:
        """Returns whether it is at least as good as `other` in everything, and better in something."""
        better = self.values - other.values
        return bool((better >= 0).all() and (better > 0).any())


def choose(held_out: HeldOutOutputs, weight: float | None = None) -> OperatingPoint:
    """Returns the operating point of a trained agent: weight, price and stopping threshold together.

    It asks least among the points that cost at most `BUDGET` of P(appropriate), at most `BUDGET` of P(safe) and at most
    `RED_BUDGET` of the Red share against deciding when everything is asked, and that in each way in which evidence
    becomes known. Each has its own budget: at a large weight, a weighted mean would hide any loss of P(appropriate).
    A point that another one dominates is never chosen. If all others exceed a budget, the one that exceeds its budgets
    least is.

    All are means of the calibrated probabilities where the agent stops: the decisions of the clinicians on a few
    hundred vignettes would be too noisy. But the probabilities are calibrated in interviews; what stands on a card
    comes in another order, so there the loss by the clinicians' decisions, with one standard error added, must be
    within `BUDGET`, too.

    Args:
        held_out: a network's outputs.
        weight: the safety weight, also when everything is asked; by default it is chosen, against the neutral one.
    """
    asks_everything = OperatingPoint(NEUTRAL.safety_weight if weight is None else weight, sure_enough=math.inf)
    everything = _candidate(held_out, asks_everything)
    # A default never weighs safety less than the rest.
    weights = [each for each in WEIGHTS if NEUTRAL.safety_weight <= each <= 4] if weight is None else [weight]
    candidates = [_candidate(held_out, point) for each in weights for point in _points(each)]
    best = [candidate for candidate in candidates if not any(other.dominates(candidate) for other in candidates)]
    costs = [_cost(candidate, everything) for candidate in best]
    limit = max(1.0, min(costs))
    good = [candidate for candidate, cost in zip(best, costs, strict=True) if cost <= limit]
    asks_least = max(good, key=lambda each: (each.values[:, 2].sum(), each.values[:, :2].sum()))
    return asks_least.operating_point


def _points(weight: float) -> Iterator[OperatingPoint]:
    """Yields the operating points with `weight` to choose from; of equally good ones, the first is chosen."""
    yield from (OperatingPoint(weight, price=price) for price in sorted(CHOICES, reverse=True))
    # At a low price Q(ask) is seldom below a threshold.
    for threshold, price in itertools.product(THRESHOLDS, sorted(PRICES, reverse=True)[:3]):
        yield OperatingPoint(weight, threshold, price)


def _candidate(held_out: HeldOutOutputs, point: OperatingPoint) -> _Candidate:
    reached = [_stopped(play, point) for play in held_out.plays]
    values = np.array([[each.appropriate, each.safe, -each.known.mean()] for each in reached])
    red = np.array([each.red for each in reached])
    on_cards = [_judged(held_out.decision_counts, each.decisions) for each in reached[1:]]
    return _Candidate(point, values, red, on_cards)


def _cost(candidate: _Candidate, everything: _Candidate) -> float:
    """Returns the highest cost of `candidate` against asking for everything, as a share of its budget."""
    shares = [(everything.values[:, :2] - candidate.values[:, :2]) / BUDGET]
    shares.append((everything.red - candidate.red)[:, np.newaxis] / RED_BUDGET)
    for all_known, stopped in zip(everything.on_cards, candidate.on_cards, strict=True):
        differences = all_known.astype(float) - stopped  # [2, M]
        error = differences.std(axis=1) / math.sqrt(differences.shape[1])
        shares.append((differences.mean(axis=1) + error)[:, np.newaxis] / BUDGET)
    return max(float(each.max()) for each in shares)


def candidates(held_out: HeldOutOutputs, own: OperatingPoint) -> list[OperatingPoint]:
    """Returns the operating points among which a promise is looked for, the agent's `own` first.

    Of each weight, the one that suits it and the one that asks most. They are few, as each weight is played.
    """
    pairs = [(choose(held_out, weight), OperatingPoint(weight, price=PRICES[0])) for weight in PROMISE_WEIGHTS]
    return list(dict.fromkeys([own, *itertools.chain.from_iterable(pairs)]))


def handing_over(points: Sequence[OperatingPoint]) -> list[OperatingPoint]:
    """Returns `points` with each of `HAND_OVER_FROM`."""
    return [dataclasses.replace(point, hand_over_from=red) for point in points for red in HAND_OVER_FROM]


def worth(held_out: HeldOutOutputs, point: OperatingPoint) -> float:
    """Returns the mean utility of decisions less the price of the questions, both as the neutral point weighs them.

    A case that is handed over is worth nothing, so that of points that keep a promise the one that decides most wins.
    """
    known, decisions = stops(held_out, point), leaving(held_out, point)
    values = utilities(tf.constant(_outputs_at(held_out, known)), NEUTRAL).numpy()
    decided = decisions != HANDED_OVER
    return float((_taken(values, np.maximum(decisions, 0)) * decided).mean() - NEUTRAL.price * known.mean())


def _outputs_at(held_out: HeldOutOutputs, known: np.ndarray) -> np.ndarray:
    """Returns the outputs `[M, O]` after the first `known` `[M]` pieces of evidence of each vignette."""
    return held_out.outputs[np.cumsum(held_out.sizes) - held_out.sizes + known - 1]


def _taken(holds: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    return np.take_along_axis(holds, decisions[:, np.newaxis], axis=1)[:, 0]

"""Trade-offs: of safety weights, on which an agent's operating point selects a point, and of handing over to a person.

Whatever its safety weight, an agent meets the same states: the first one, two, ... pieces of evidence of a vignette. So
the network's outputs are computed once for each state, and all weights are played on them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from schemas.triage import Action, may_be_red
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import agreement
from trainer.evaluation.estimates import Estimate
from trainer.evaluation.metrics import agent_metrics, estimates_of_sums, urgency_range
from trainer.graph.decide import OperatingPoint, decide
from trainer.graph.operating_point import HAND_OVER_FROM, HeldOutOutputs, decisions_at, stops
from trainer.vignettes.state import Vignettes

_QUALITY = ("appropriateness", "safety", "over_triage")
_ESTIMATED = (*_QUALITY, "red_sensitivity")
DEFER_BELOW = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""P(safe) of the decision below which a case is handed over."""


class Point(NamedTuple):
    """An agent with one safety weight; means over vignettes, four of them with 95% bootstrap intervals."""

    safety_weight: float
    sure_enough: float | None
    price: float
    chosen: bool  # it is the agent's own
    appropriateness: float
    safety: float
    over_triage: float
    red_sensitivity: float | None  # None if no vignette has the majority decision Red
    questions: float
    evidence_seen: float
    forced: float
    intervals: dict[str, tuple[float | None, float | None]]  # ends, of the first four figures


class HandedOver(NamedTuple):
    """A threshold of `DEFER_BELOW` or of `HAND_OVER_FROM`, with shares in [0, 1]; None without such cases."""

    defer_below: float | None
    hand_over_from: float | None  # P(Red is appropriate) from which a decision below Red is handed over
    handed_over: float  # of all episodes
    under_triage: float | None  # of the episodes that are left: less urgent than any clinician decided
    red_missed: float | None  # of those whom clinicians call Red: they leave below Red, and no person looks


def frontier(
    outputs: np.ndarray,
    vignettes: Vignettes,
    points: Sequence[OperatingPoint],
    max_questions: int,
    chosen: OperatingPoint,
    seed: int = 0,
) -> list[Point]:
    """Returns the figures of `points`, less those that `rising` leaves out.

    Args:
        outputs: float32 `[K, R, O]`, of the network after one, two and up to all pieces of evidence of each vignette,
            in K evidence orders.
        vignettes: those V vignettes; R is the number of their pieces of evidence.
        points: to play, in ascending order of weight.
        max_questions: questions after which a decision is forced.
        chosen: the agent's own operating point.
        seed: of the bootstrap over vignettes.
    """
    played = []
    for point in points:
        outcomes = play_outputs(outputs, vignettes, point, max_questions)
        values = agent_metrics(outcomes, vignettes.decision_counts)
        red = agreement.detection_parts(outcomes.decisions, vignettes.decision_counts, Action.RED)
        estimates = _estimates(np.stack([values[name] for name in _QUALITY], axis=1), red, seed)
        figures: dict[str, Any] = {name: each and each.mean for name, each in estimates.items()}
        figures |= {name: float(values[name].mean()) for name in ("questions", "evidence_seen", "forced")}
        intervals = {name: (each.low, each.high) for name, each in estimates.items() if each is not None}
        played.append(
            Point(point.safety_weight, point.sure_enough, point.price, point == chosen, intervals=intervals, **figures)
        )
    return rising(played)


def rising(points: Sequence[Point]) -> list[Point]:
    """Returns points, in ascending order of weight, of which a larger weight never finds fewer Red cases.

    The agent's own point stays; both ways from it, what would break the order is left out. Without it the first stays.
    """
    found = [-1.0 if point.red_sensitivity is None else point.red_sensitivity for point in points]
    own = next((place for place, point in enumerate(points) if point.chosen), 0)
    kept = [own]
    for place in range(own + 1, len(points)):
        if found[place] >= found[kept[-1]]:
            kept.append(place)
    for place in reversed(range(own)):
        if found[place] <= found[kept[0]]:
            kept.insert(0, place)
    return [points[place] for place in kept]


def _estimates(quality: np.ndarray, red: np.ndarray, seed: int) -> dict[str, Estimate | None]:
    """Returns the estimates of `_ESTIMATED` from `_QUALITY` `[V, 3]` and what each vignette adds to Red's rates."""
    columns = quality.shape[1]

    def figures(sums: np.ndarray) -> np.ndarray:
        sensitivity = agreement.detection_rates(sums[:, columns:])[:, :1]
        return np.concatenate([sums[:, :columns] / len(quality), sensitivity], axis=1)

    resting_on = [*[len(quality)] * columns, int(np.count_nonzero(red[:, 0]))]
    estimates = estimates_of_sums(np.concatenate([quality, red], axis=1), figures, resting_on, seed)
    return dict(zip(_ESTIMATED, estimates, strict=True))


def play_outputs(outputs: np.ndarray, vignettes: Vignettes, point: OperatingPoint, max_questions: int) -> Outcomes:
    """Returns the outcomes of an agent whose outputs `[K, R, O]` are known, see `frontier`.

    As in `trainer.dyqn.rollout.Rollout`, an agent that goes on asking when all evidence is known is forced in the end.
    """
    sizes = np.diff(vignettes.offsets)
    columns = [_play(HeldOutOutputs(each, sizes, vignettes.decision_counts), point, max_questions) for each in outputs]
    return Outcomes(*(np.stack(column) for column in zip(*columns, strict=True)))


def _play(known_outputs: HeldOutOutputs, point: OperatingPoint, max_questions: int) -> Sequence[np.ndarray]:
    """Returns decisions, questions, evidence seen and whether the decision was forced, `[V]` each."""
    seen = np.minimum(stops(known_outputs, point), max_questions + 1)
    ends = np.cumsum(known_outputs.sizes)
    here = tf.constant(known_outputs.outputs[ends - known_outputs.sizes + seen - 1])
    anything: np.ndarray = np.ones(len(seen), bool)
    goes_on = decide(here, ~anything, anything, point).numpy() == Action.ASK
    questions = np.where(goes_on, max_questions, seen - 1)
    return decisions_at(known_outputs, seen, point), questions, seen, questions == max_questions


def handing_over(outcomes: Outcomes, decision_counts: np.ndarray) -> list[HandedOver]:
    """Returns the figures of each threshold, those of P(safe) first.

    Args:
        outcomes: K orders of V vignettes, of an agent with probabilities.
        decision_counts: `[V, 4]`.
    """
    decisions, probabilities = outcomes.decisions, outcomes.probabilities
    if probabilities is None:
        return []
    safe = np.take_along_axis(probabilities[:, :, 1], decisions[..., np.newaxis], axis=2)[..., 0]  # [K, V]
    _, least = urgency_range(decision_counts)
    red = agreement.majority_decisions(decision_counts) == Action.RED

    def row(defer_below: float | None, hand_over_from: float | None, handed_over: np.ndarray) -> HandedOver:
        left = ~handed_over
        late, below = (decisions > least) & left, (decisions > Action.RED) & left
        return HandedOver(
            defer_below,
            hand_over_from,
            float(handed_over.mean()),
            float(late.sum() / left.sum()) if left.any() else None,
            float(below[:, red].mean()) if red.any() else None,
        )

    p_red = probabilities[:, :, 0, Action.RED]  # [K, V]
    return [
        *(row(threshold, None, safe < threshold) for threshold in DEFER_BELOW),
        *(row(None, likely, may_be_red(decisions, p_red, likely)) for likely in sorted(HAND_OVER_FROM, reverse=True)),
    ]

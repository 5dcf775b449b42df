"""The trade-off of safety weights: the frontier on which an agent's operating point selects a point.

Whatever its weight, an agent meets the same states: the first one, two, ... pieces of evidence of a vignette. So the
network's outputs are computed once for each state, and all weights are played on them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from schemas.triage import NUM_ACTIONS, Action
from trainer.decision.decision import OperatingPoint, decide, utilities
from trainer.decision.operating_point import HeldOutOutputs, decisions_at, stops
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import agreement
from trainer.evaluation.estimates import Estimate
from trainer.evaluation.metrics import agent_metrics, estimates_of_sums
from trainer.vignettes.state import Vignettes

if TYPE_CHECKING:
    import keras


_QUALITY = ("appropriateness", "safety", "over_triage")
_ESTIMATED = (*_QUALITY, "red_sensitivity")


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


class RecordedTriage:
    """The triage of a network, as `trainer.evaluation.prefixes.Triage`, which keeps every output."""

    def __init__(self, network: "keras.Model", point: OperatingPoint):
        self._network, self._point = network, point
        self._parts: list[np.ndarray] = []

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """Returns the utilities of the triage decisions, float `[B, 4]`, in states `[B, E]`."""
        outputs = self._network(states)
        self._parts.append(np.asarray(outputs))
        return np.asarray(utilities(outputs, self._point))

    def outputs(self, orders: int) -> np.ndarray | None:
        """Returns the outputs float32 `[K, R, O]` in K evidence orders; None if the network has only Q-values."""
        if self._parts[0].shape[1] == NUM_ACTIONS:
            return None
        outputs = np.concatenate(self._parts)
        return outputs.reshape(orders, -1, outputs.shape[1])


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

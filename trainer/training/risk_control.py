"""Learn then Test: operating points that keep several risks low, with a stated confidence.

Angelopoulos, Bates, Candès, Jordan and Lei, "Learn then Test: Calibrating Predictive Algorithms to Achieve Risk
Control" (2021): fixed-sequence testing (section 2.3), in an order that other patients decide, of the hypothesis that
one of the risks is above its level. Its p-value is the largest of theirs, so that several risks cost no correction.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trainer.graph.decide import OperatingPoint
from trainer.graph.operating_point import HeldOutOutputs, leaving
from triage_runtime import promise
from triage_runtime.promise import Count

ErrorCounts = Mapping[str, Mapping[str, Count]]
"""The errors in each setting, such as an interview, of each of `schemas.promise.RISKS`."""
TEST_SHARE = 0.75
"""Share of the permitted error that goes to the test; the rest goes to the bounds that a refusal states."""


class Control(NamedTuple):
    """Results of operating points on the patients set apart."""

    kept: list[OperatingPoint]  # those that keep all risks at their levels
    found: list[ErrorCounts]  # of each of them
    likeliest: OperatingPoint  # the first one tested
    bounds: dict[str, float]  # what its risks are at most, all at once, if none is kept


def in_order(
    points: Sequence[OperatingPoint], held_out: HeldOutOutputs, levels: Mapping[str, float]
) -> list[OperatingPoint]:
    """Returns operating points, first those that most probably keep the levels, judging by held-out patients.

    Of points that these few patients cannot tell apart, such as without an error, the one that asks longest, and of
    those the one that hands over most.
    """

    def doubt(point: OperatingPoint) -> tuple[float, float, float]:
        counted = promise.count(leaving(held_out, point), held_out.decision_counts)
        hands_over = 1.0 if point.hand_over_from is None else point.hand_over_from
        return largest_p({"held_out": counted}, levels), -(point.sure_enough or 0.0), hands_over

    return sorted(points, key=doubt)


def largest_p(counted: ErrorCounts, levels: Mapping[str, float]) -> float:
    """Returns the p-value of the hypothesis that a risk is above its level in one of the settings."""
    return max(promise.p_value(counts[name], level) for counts in counted.values() for name, level in levels.items())


def control(
    order: Sequence[OperatingPoint],
    judge: Callable[[OperatingPoint], ErrorCounts],
    levels: Mapping[str, float],
    error: float,
) -> Control:
    """Tests operating points in `order` until one fails.

    With a probability of at least 1 - `error`, all that is returned is true: the points `kept` keep their levels, or
    the `bounds` hold.

    Args:
        order: at least one point; decided without the patients of `judge`.
        judge: returns the errors of these patients at a point.
        levels: what each risk is at most.
        error: in (0, 1).
    """
    kept, results = [], []
    for point in order:
        counted = judge(point)
        results.append(counted)
        if largest_p(counted, levels) > TEST_SHARE * error:
            break
        kept.append(point)
    if kept:
        return Control(kept, results[: len(kept)], order[0], {})
    each = (1 - TEST_SHARE) * error / (len(levels) * len(results[0]))
    bounds = {
        name: float(np.max([promise.upper_bound(counts[name], each) for counts in results[0].values()]))
        for name in levels
    }
    return Control([], [results[0]], order[0], bounds)

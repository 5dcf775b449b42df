"""benchmarks/promises.py on a panel made by hand: how often promises are true, and whether they say anything."""

import numpy as np
import pytest

from benchmarks.promises import Panel, resampled
from schemas.triage import Action
from trainer.graph.decide import OperatingPoint
from trainer.graph.operating_point import HeldOutOutputs

HASTY, SAFE, SAFER = (OperatingPoint(floor) for floor in (None, 0.8, 0.9))


def panel(late):
    """1,000 Red and 1,000 Green patients; of the Red ones as many as `late` says leave as Yellow at each point."""
    counts = np.array([[3, 0, 0, 0]] * 1000 + [[0, 0, 3, 0]] * 1000)
    decisions = {}
    for point, share in late.items():
        red = np.where(np.arange(1000) < 1000 * share, Action.YELLOW, Action.RED)
        decisions[point] = {"interview": np.concatenate([red, np.full(1000, Action.GREEN)])}
    return Panel(decisions, counts)


@pytest.fixture
def held_out():
    q, appropriate = np.float32([[0.95, 0.3, 0.15, 0.05, 0.0]] * 50), np.float32([[0.9, 0.2, 0.1, 0.0]] * 50)
    return HeldOutOutputs(q, appropriate, np.ones(50, np.int64), np.array([[3, 0, 0, 0]] * 50))


def test_promises_are_true_as_often_as_they_say_and_some_are_made(held_out):
    here = panel({SAFER: 0.06, SAFE: 0.11, HASTY: 0.12})
    shifted = {"worse": panel({HASTY: 0.3, SAFE: 0.3, SAFER: 0.3}), "same": here}
    figures = resampled(here, shifted, held_out, 0.004, {"red": 0.1}, 0.9, 400, 300, seed=0)
    # Of about 200 Red patients 13 or fewer errors pass: at .06 in 67% of the draws, at .11 in 3%.
    assert figures["true"] >= 0.9
    assert 0.4 < figures["made"] < 0.9
    assert 0.06 <= figures["risk"]["red"] < 0.08
    assert figures["bound"]["red"] > figures["bound_risk"]["red"] == pytest.approx(0.06)
    assert figures["shifted"]["worse"] == {"holds": 0.0, "noticed": 1.0, "monitored": 1.0}
    assert figures["shifted"]["same"]["holds"] == figures["promises_true"]


def test_the_monitor_notices_less_than_the_gate(held_out):
    """Of 400 patients some 200 are Red, at .15 some 30 of them errors: promised are .1, that is 20 with an SD of 4.2.

    The gate tests at 5%, the monitor at a quarter of a percent: some 28 and 33 errors are enough.
    """
    here = panel({HASTY: 0.05, SAFE: 0.05, SAFER: 0.05})
    shifted = {"worse": panel({HASTY: 0.15, SAFE: 0.15, SAFER: 0.15})}
    found = resampled(here, shifted, held_out, 0.004, {"red": 0.1}, 0.9, 400, 300, seed=0)
    worse = found["shifted"]["worse"]
    assert 0.1 < worse["monitored"] < worse["noticed"] < 0.9

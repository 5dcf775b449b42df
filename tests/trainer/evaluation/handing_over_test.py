"""The share that is handed over, and the risk that is left, counted by hand."""

import numpy as np
import pytest

from trainer.dyqn.rollout import Outcomes
from trainer.evaluation.handing_over import DEFER_BELOW, frontier

RED, GREEN = [3, 0, 0, 0], [0, 0, 3, 0]


def outcomes(decisions, safe):
    """One order of vignettes, each with the P(safe) of its own decision."""
    outputs = np.zeros([1, len(decisions), 13], np.float32)
    outputs[0, np.arange(len(decisions)), 9 + np.array(decisions)] = safe
    nothing = np.zeros([1, len(decisions)])
    return Outcomes(np.array([decisions]), nothing, nothing, nothing, outputs)


def test_what_is_unsafe_and_unsure_is_handed_over_first():
    played = outcomes([2, 2, 0, 3], [0.55, 0.85, 1.0, 0.97])
    rows = {row.defer_below: row[1:] for row in frontier(played, np.array([RED, RED, RED, GREEN]))}
    # Two of three Red ones leave as Green, the Green one as Blue: three of four are under-triaged.
    assert rows[0.0] == (0.0, 0.75, pytest.approx(2 / 3))
    assert rows[0.6] == (0.25, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert rows[0.9] == (0.5, 0.5, 0.0)
    assert list(rows) == list(DEFER_BELOW)


def test_without_red_patients_or_probabilities_nothing_is_said():
    assert frontier(outcomes([2], [0.2]), np.array([GREEN]))[-1] == (0.95, 1.0, None, None)
    assert frontier(outcomes([2], [0.2])._replace(outputs=np.zeros([1, 1, 5])), np.array([GREEN])) == []

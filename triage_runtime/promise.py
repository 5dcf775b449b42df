"""The risks of `schemas.promise`: how many errors there are, and what that implies for other patients.

Each patient has one colour, and an error is yes or no. So the number of errors among n patients who are drawn alike is
binomial, and its tests and bounds are exact (Clopper and Pearson, 1934).
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

from schemas.triage import NUM_DECISIONS, Action

HANDED_OVER = -1
"""In place of a decision, where a person decides."""


class Count(NamedTuple):
    """Errors among the patients that a risk is about."""

    errors: int
    patients: int

    @property
    def share(self) -> float | None:
        """Share of errors; None without patients."""
        return self.errors / self.patients if self.patients else None


def count(decisions: np.ndarray, decision_counts: np.ndarray) -> dict[str, Count]:
    """Returns the errors of each of `schemas.promise.RISKS`.

    Args:
        decisions: int `[V]`, columns of the decisions with which patients leave, or `HANDED_OVER`.
        decision_counts: `[V, 4]`, of their clinicians, at least one decision a row.
    """
    called = decision_counts.argmax(axis=1)
    given = decision_counts > 0
    most, least = given.argmax(axis=1), NUM_DECISIONS - 1 - given[:, ::-1].argmax(axis=1)
    everybody: np.ndarray = np.ones(len(called), bool)
    handed = decisions == HANDED_OVER
    sides = {
        "red": (called == Action.RED, decisions > Action.RED),
        "yellow": (called <= Action.YELLOW, decisions > Action.YELLOW),
        "under": (everybody, decisions > least),
        "over": (everybody, ~handed & (decisions < most)),
        "handed_over": (everybody, handed),
    }
    return {name: Count(int((about & wrong).sum()), int(about.sum())) for name, (about, wrong) in sides.items()}


def p_value(counted: Count, level: float) -> float:
    """Returns the probability of so few errors if the risk were `level`; 1 without patients."""
    return float(stats.binom.cdf(counted.errors, counted.patients, level)) if counted.patients else 1.0


def upper_bound(counted: Count, error: float) -> float:
    """Returns the upper bound of the risk, at confidence 1 - `error`."""
    if counted.errors == counted.patients:
        return 1.0
    return float(stats.beta.ppf(1 - error, counted.errors + 1, counted.patients - counted.errors))


def lower_bound(counted: Count, error: float) -> float:
    """Returns the lower bound of the risk, at confidence 1 - `error`."""
    if not counted.errors:
        return 0.0
    return float(stats.beta.ppf(error, counted.errors, counted.patients - counted.errors + 1))


def broken(levels: Mapping[str, float], counted: Mapping[str, Count], error: float) -> list[str]:
    """Returns the risks that are above their level on other patients.

    That it names one although all are kept has a probability of at most `error`.
    """
    return [name for name, level in levels.items() if lower_bound(counted[name], error / len(levels)) > level]

"""Statistics of a split, in one pass: the rows of the paper's table "Clinical vignettes statistics"."""

import math
from typing import Any

from schemas.evidence import Vocabulary
from schemas.triage import DECISION_LABELS, NUM_DECISIONS
from trainer.vignettes.split import majority
from trainer.vignettes.vignette import Vignette

_COUNTED = ("symptoms_present", "symptoms_absent", "risk_factors_present", "risk_factors_absent")


class Moments:
    """Running mean and standard deviation (Welford's method)."""

    def __init__(self) -> None:
        self._count = 0
        self._mean = 0.0
        self._squares = 0.0  # sum of squared deviations from the mean

    def add(self, value: float) -> None:
        """Adds a value."""
        self._count += 1
        deviation = value - self._mean
        self._mean += deviation / self._count
        self._squares += deviation * (value - self._mean)

    def to_dict(self) -> dict[str, float | None]:
        """Returns the mean, and the sample standard deviation `sd` (divisor n - 1); None if undefined."""
        return {
            "mean": self._mean if self._count else None,
            "sd": math.sqrt(self._squares / (self._count - 1)) if self._count > 1 else None,
        }


class SplitStats:
    """Counts the vignettes of one split.

    Args:
        vocabulary: distinguishes symptoms from risk factors.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._risk_factors = frozenset(entry.code for entry in vocabulary if entry.kind == "risk_factor")
        self._vignettes = 0
        self._decisions = [0] * NUM_DECISIONS
        self._majority = [0] * NUM_DECISIONS
        self._shares = [Moments() for _ in DECISION_LABELS]
        self._moments = {name: Moments() for name in ("evidence", *_COUNTED, "decisions_per_vignette")}

    def add(self, vignette: Vignette) -> None:
        """Adds a vignette."""
        self._vignettes += 1
        decisions = vignette.decision_counts
        total = sum(decisions)
        for decision, count in enumerate(decisions):
            self._decisions[decision] += count
            self._shares[decision].add(count / total)
        self._majority[majority(decisions)] += 1
        risks_present, risks_absent = (
            sum(code in self._risk_factors for code in codes) for codes in (vignette.present, vignette.absent)
        )
        counts = (
            len(vignette.present) - risks_present, len(vignette.absent) - risks_absent, risks_present, risks_absent,
        )  # fmt: skip
        for moments, value in zip(self._moments.values(), (sum(counts), *counts, total), strict=True):
            moments.add(value)

    def to_dict(self) -> dict[str, Any]:
        """Returns the statistics.

        `decisions` counts clinicians' decisions, `majority` counts vignettes, `decision_share` is the share of a
        decision among those of a vignette; all others are numbers per vignette.
        """
        shares = [share.to_dict() for share in self._shares]
        return {
            "vignettes": self._vignettes,
            "decisions": dict(zip(DECISION_LABELS, self._decisions, strict=True)),
            "majority": dict(zip(DECISION_LABELS, self._majority, strict=True)),
            "decision_share": dict(zip(DECISION_LABELS, shares, strict=True)),
            **{name: moments.to_dict() for name, moments in self._moments.items()},
        }

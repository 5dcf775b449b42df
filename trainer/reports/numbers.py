"""Numbers as reports write them, and tables of them."""

from typing import NamedTuple

from trainer.evaluation.estimates import Estimate
from trainer.evaluation.slices import MINIMUM_VIGNETTES

NONE = "\N{EN DASH}"
"""What stands for a number that was not measured."""
_MINUS = "\N{MINUS SIGN}"


class Measure(NamedTuple):
    """A metric as the report names it."""

    key: str  # in JSON
    label: str
    share: bool  # in [0, 1], shown as a percentage; else a count


APPROPRIATENESS = Measure("appropriateness", "Appropriateness", True)
SAFETY = Measure("safety", "Safety", True)
OVER_TRIAGE = Measure("over_triage", "Over-triage", True)
UNDER_TRIAGE = Measure("under_triage", "Under-triage", True)
QUESTIONS = Measure("questions", "Questions asked", False)
EVIDENCE_SEEN = Measure("evidence_seen", "Evidence seen", False)
FORCED = Measure("forced", "Forced", True)
RED_SENSITIVITY = Measure("red_sensitivity", "Red sensitivity", True)
RED_SPECIFICITY = Measure("red_specificity", "Red specificity", True)
KAPPA = Measure("weighted_kappa", "Weighted kappa", False)

MEASURES = (
    APPROPRIATENESS, SAFETY, OVER_TRIAGE, UNDER_TRIAGE, RED_SENSITIVITY, RED_SPECIFICITY, KAPPA, QUESTIONS,
    EVIDENCE_SEEN, FORCED,
)  # fmt: skip
IN_INTERVIEWS = (
    RED_SENSITIVITY, UNDER_TRIAGE, SAFETY, APPROPRIATENESS, OVER_TRIAGE, RED_SPECIFICITY, KAPPA, QUESTIONS,
)  # fmt: skip
"""Those of interviews, emergencies first."""
IN_RANDOM_ORDER = tuple(measure for measure in MEASURES if measure not in (RED_SENSITIVITY, RED_SPECIFICITY))
"""Those of episodes in random evidence order, where there are interviews to find emergencies in."""


class Table(NamedTuple):
    """A table of texts; the first column names the rows."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def shown(measure: Measure, value: float | None) -> str:
    """Returns `value` as text: "85.1%" for a share, "13.34" for a count, a dash for None."""
    if value is None:
        return NONE
    return (f"{100 * value:.1f}%" if measure.share else f"{value:.2f}").replace("-", _MINUS)


def with_interval(measure: Measure, estimate: Estimate | None) -> str:
    """Returns mean and interval for a cell, such as "85.1% (79.0-90.8%)", with an en dash."""
    mean = shown(measure, estimate and estimate.mean)
    if estimate is None or estimate.low is None or estimate.high is None:
        return mean
    between = " to " if estimate.low < 0 else NONE  # a dash beside a minus misleads
    low, high = shown(measure, estimate.low), shown(measure, estimate.high)
    return f"{mean} ({low.removesuffix('%') if between == NONE else low}{between}{high})"  # the sign once is enough


def with_interval_if_enough(measure: Measure, estimate: Estimate | None) -> str:
    """Returns `with_interval`, or that the figure rests on too few vignettes."""
    if estimate is not None and estimate.vignettes is not None and estimate.vignettes < MINIMUM_VIGNETTES:
        return f"too few ({estimate.vignettes})"
    return with_interval(measure, estimate)


def difference(measure: Measure, estimate: Estimate | None) -> str:
    """Returns a difference of two means with its interval, of shares in percentage points: "+1.2 (−0.3 to +2.7)"."""
    if estimate is None:
        return NONE
    scale, digits = (100, 1) if measure.share else (1, 2)
    mean, *ends = (f"{scale * value:+.{digits}f}".replace("-", _MINUS) for value in estimate[:3] if value is not None)
    return f"{mean} ({' to '.join(ends)})" if ends else mean


def count(value: float | None) -> str:
    """Returns a whole number with thousands separated, or a dash for None."""
    return NONE if value is None else f"{value:,.0f}"


def several(number: int, noun: str, plural: str | None = None) -> str:
    """Returns a count with its noun, such as "1 seed" or "3 seeds"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"

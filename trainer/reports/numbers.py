"""Numbers of a study as its report writes them, and tables of them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trainer.evaluation.estimates import Estimate

NONE = "\N{EN DASH}"
"""What stands for a number that was not measured."""
_TO = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"


class Measure(NamedTuple):
    """A metric as the report names it."""

    key: str  # in results.json
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
MEASURES = (APPROPRIATENESS, SAFETY, OVER_TRIAGE, UNDER_TRIAGE, QUESTIONS, EVIDENCE_SEEN, FORCED)
"""Of the results table. "Forced" is the share of episodes in which the question limit forced the decision."""
TARGETS = (APPROPRIATENESS, SAFETY, QUESTIONS)
"""The three that the paper reports (section "Metrics")."""


FEWEST = 10
"""Vignettes behind a figure, at least: a mean over fewer says nothing."""


class Table(NamedTuple):
    """A table of texts; the first column names the rows."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def value_at(tree: Any, *keys: str) -> Any:
    """Returns what stands under `keys`, one inside the other; None where one of them is missing or null."""
    for key in keys:
        if not isinstance(tree, Mapping):
            return None
        tree = tree.get(key)
    return tree


def agents_of(results: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the agents that the study ran, in its order."""
    return {name: agent for name, agent in (results.get("agents") or {}).items() if agent}


def number_at(tree: Any, *keys: str) -> float | None:
    """Returns the finite number under `keys`; None where there is none."""
    value = value_at(tree, *keys)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def estimate_at(tree: Any, *keys: str) -> Estimate | None:
    """Returns the mean with its interval under `keys`, as JSON holds it; None where none was measured."""
    estimate = value_at(tree, *keys)
    mean, vignettes = number_at(estimate, "mean"), number_at(estimate, "vignettes")
    if mean is None:
        return None
    low, high = (number_at(estimate, end) for end in ("low", "high"))
    return Estimate(mean, low, high, None if vignettes is None else round(vignettes))


def shown(measure: Measure, value: float | None) -> str:
    """Returns `value` as text: "85.1%" for a share, "13.34" for a count, a dash for None."""
    if value is None:
        return NONE
    return (f"{100 * value:.1f}%" if measure.share else f"{value:.2f}").replace("-", _MINUS)


def spread(measure: Measure, value: float | None) -> str:
    """Returns a standard deviation as text, in percentage points for a share."""
    if value is None:
        return NONE
    return f"{100 * value:.1f}" if measure.share else f"{value:.2f}"


def interval(measure: Measure, estimate: Estimate | None, between: str = _TO) -> str | None:
    """Returns the ends of the interval of `estimate` as text, such as "79.0–90.8%"; None where it has no interval."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return None
    if estimate.low < 0:  # a dash beside a minus misleads
        between = " to "
    high = shown(measure, estimate.high)
    if between == _TO and measure.share:  # the sign once is enough
        return f"{100 * estimate.low:.1f}{_TO}{high}"
    return f"{shown(measure, estimate.low)}{between}{high}"


def with_interval(measure: Measure, estimate: Estimate | None) -> str:
    """Returns mean and interval for a cell, such as "85.1% (79.0–90.8%)"."""
    mean, ends = shown(measure, estimate and estimate.mean), interval(measure, estimate)
    return f"{mean} ({ends})" if ends else mean


def with_interval_if_enough(measure: Measure, estimate: Estimate | None) -> str:
    """Returns `with_interval`, or that the figure rests on too few vignettes."""
    if estimate is not None and estimate.vignettes is not None and estimate.vignettes < FEWEST:
        return f"too few ({estimate.vignettes})"
    return with_interval(measure, estimate)


def difference(measure: Measure, estimate: Estimate | None) -> str:
    """Returns a difference of two means with its interval, of shares in percentage points: "+1.2 (−0.3 to +2.7)"."""
    if estimate is None:
        return NONE
    scale, digits = (100, 1) if measure.share else (1, 2)
    mean, *ends = (f"{scale * value:+.{digits}f}".replace("-", _MINUS) for value in estimate[:3] if value is not None)
    return f"{mean} ({' to '.join(ends)})" if ends else mean


def count(value: Any) -> str:
    """Returns a whole number with thousands separated, or a dash for None."""
    number = number_at({"value": value}, "value")
    return NONE if number is None else f"{number:,.0f}"


def several(number: int, noun: str, plural: str | None = None) -> str:
    """Returns a count with its noun, such as "1 seed" or "3 seeds"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Sequence[str]) -> str:
    """Returns names as a sentence lists them: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1] if names else "")))


def duration(seconds: float | None) -> str:
    """Returns seconds as hours, minutes and seconds, the largest two of them."""
    if seconds is None:
        return NONE
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"

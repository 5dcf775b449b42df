"""The figures of an evaluation as types; `triage_runtime.command_line.json_output.plain` makes JSON of them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MARGIN = 0.05
"""Difference of two shares up to which agents are on a par, unless a study says otherwise.

The smallest difference on which the paper rests a claim (.93 against .88 safe) is that; of smaller ones (.84, .85 and
.86 appropriate) it says "on a par".
"""


class Estimate(NamedTuple):
    """A mean, or another figure, of vignettes with its bootstrap confidence interval."""

    mean: float
    low: float | None = None  # None for a single vignette, which gives no interval
    high: float | None = None
    vignettes: int | None = None  # None where it is not recorded

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of its interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)


Estimates = Mapping[str, Estimate | None]
"""By the name of the figure; None where it is not defined, such as the sensitivity to Red without a Red case."""


def bracketed(estimate: Estimate | None, form: str = ".3f") -> str:
    """Returns mean and interval as text without a measure, such as "0.919 [0.890, 0.944]"; "-" for None."""
    if estimate is None:
        return "-"
    mean = format(estimate.mean, form)
    return mean if estimate.low is None else f"{mean} [{estimate.low:{form}}, {estimate.high:{form}}]"


class ReliabilityBin(NamedTuple):
    """States whose predicted value lies in [low, high); in the last bin 1 is included."""

    low: float
    high: float
    states: int
    predicted: float | None  # mean predicted value; None where the bin is empty
    observed: Estimate | None  # mean outcome


class Calibration(NamedTuple):
    """How predicted values match the outcomes."""

    curve: list[ReliabilityBin]
    predicted: Estimate  # mean predicted value
    observed: Estimate  # mean outcome
    gap: Estimate  # predicted minus observed: above 0 is overconfident
    expected_calibration_error: Estimate
    brier_score: Estimate


class SliceFigures(NamedTuple):
    """The metrics of a slice."""

    by: str
    value: str
    vignettes: int
    metrics: dict[str, Estimate]


class Gap(NamedTuple):
    """A metric that is lower in a slice than on all other vignettes, beyond chance."""

    by: str
    value: str
    vignettes: int
    metric: str
    mean: float
    others: float  # its mean on the other vignettes
    difference: Estimate  # the slice minus the others; its interval is below 0


class Confusion(NamedTuple):
    """How often the agent (columns) gave each decision where a clinician gave that of the row."""

    rows: str
    columns: str
    labels: Sequence[str]
    matrix: list[list[float]]


class AgentFigures(NamedTuple):
    """The figures of an agent's episodes."""

    agent: dict[str, Estimate]
    """See `metrics.agent_metrics`."""
    agreement: Estimates
    """See `agreement.agent_agreement`."""
    confusion: Confusion
    calibration: Mapping[str, Any] | None
    """See `calibration.figures`; None for an agent without Q-values, or with probabilities."""
    probabilities: Mapping[str, Mapping[str, Calibration]] | None
    """See `calibration.figures`; None for an agent without probabilities."""
    slices: list[SliceFigures]


class Baselines(NamedTuple):
    """The figures of the clinicians and of the constant policies on the same vignettes."""

    human: Estimates | None  # None if no vignette has enough decisions
    human_agreement: Estimates | None
    human_minimum_decisions: int
    constants: dict[str, dict[str, Estimate]]


class AsClinicians(NamedTuple):
    """An agent scored as clinicians are, on the vignettes on which they are scored."""

    vignettes: int
    by_all_but_one: Estimates  # comparable with the clinicians' own
    by_all: Estimates  # comparable with the agent's on all vignettes
    less_clinicians: Estimates  # `by_all_but_one` minus the clinicians' own, vignette by vignette


class Compared(NamedTuple):
    """A figure without and with safety rules."""

    without: Estimate | None
    with_rules: Estimate | None
    difference: Estimate | None  # paired; None if the figure is no mean


class RuleEffect(NamedTuple):
    """What safety rules change."""

    rules: Mapping[str, Any]  # see `RuleSet.described`
    metrics: dict[str, Compared]
    changed: float  # share of the episodes that end with another decision
    as_clinicians: AsClinicians | None  # the agent with rules

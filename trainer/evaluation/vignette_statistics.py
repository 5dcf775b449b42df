"""The paper's table "Clinical vignettes statistics", and the same figures for any vignettes."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.table import Table

from schemas.triage import DECISION_LABELS, Action
from trainer.evaluation.metrics import constant_metrics, quality_by_others

MINIMUM_DECISIONS = 3
"""Decisions that a vignette needs to count in the inter-expert figures, as in the paper's table."""

_GREEN = Action.GREEN.label


class Moments(NamedTuple):
    """Mean and sample standard deviation over vignettes; NaN if there are too few."""

    mean: float
    sd: float
    vignettes: int


class Statistics(NamedTuple):
    """What the table says of some vignettes."""

    figures: Mapping[str, Moments]
    decisions: tuple[int, int] | None  # fewest and most of a vignette; None if there are no vignettes


# Figures of the table of 1,374 vignettes. The caption says SD 2.5 of the number of symptoms, the table 2.6. The figures
# of always_green are the performance table's; it gives no SD for them.
PAPER_FIGURES: Mapping[str, Moments] = {
    "symptoms": Moments(6.15, 2.6, 1374),
    "symptoms_present": Moments(3.70, 1.85, 1374),
    "symptoms_absent": Moments(2.45, 2.14, 1374),
    "risk_factors": Moments(1.13, 1.14, 1374),
    "risk_factors_present": Moments(0.79, 0.89, 1374),
    "risk_factors_absent": Moments(0.34, 0.72, 1374),
    "decisions_per_vignette": Moments(3.36, 1.44, 1374),
    "share_Red": Moments(0.09, 0.24, 1374),
    "share_Yellow": Moments(0.34, 0.36, 1374),
    "share_Green": Moments(0.48, 0.37, 1374),
    "share_Blue": Moments(0.09, 0.22, 1374),
    "inter_expert_appropriateness": Moments(0.84, 0.17, 1073),
    "inter_expert_safety": Moments(0.93, 0.12, 1073),
    "always_green_appropriateness": Moments(0.71, math.nan, 126),
    "always_green_safety": Moments(0.75, math.nan, 126),
}
PAPER = Statistics(PAPER_FIGURES, (1, 11))


def values(evidence_counts: np.ndarray, decision_counts: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the values whose mean each of `PAPER_FIGURES` is: one float for each vignette that counts.

    Args:
        evidence_counts: int `[V, 4]`: symptoms present, symptoms absent, risk factors present, risk factors absent.
        decision_counts: int `[V, 4]`: decisions for Red, Yellow, Green, Blue; at least one a row.
    """
    present, absent, risks_present, risks_absent = evidence_counts.T.astype(np.float64)
    total = decision_counts.sum(axis=1)
    shares = decision_counts / total[:, None]
    human = quality_by_others(decision_counts, MINIMUM_DECISIONS)
    green = constant_metrics(decision_counts)[_GREEN]
    return {
        "symptoms": present + absent,
        "symptoms_present": present,
        "symptoms_absent": absent,
        "risk_factors": risks_present + risks_absent,
        "risk_factors_present": risks_present,
        "risk_factors_absent": risks_absent,
        "decisions_per_vignette": total.astype(np.float64),
        **{f"share_{label}": shares[:, column] for column, label in enumerate(DECISION_LABELS)},
        "inter_expert_appropriateness": human["appropriateness"],
        "inter_expert_safety": human["safety"],
        "always_green_appropriateness": green["appropriateness"],
        "always_green_safety": green["safety"],
    }


def statistics(evidence_counts: np.ndarray, decision_counts: np.ndarray) -> Statistics:
    """Returns the figures of vignettes, see `values`."""
    totals = decision_counts.sum(axis=1)
    figures = {name: _moments(each) for name, each in values(evidence_counts, decision_counts).items()}
    return Statistics(figures, (int(totals.min()), int(totals.max())) if len(totals) else None)


def _moments(values: np.ndarray) -> Moments:
    count = len(values)
    mean = float(values.mean()) if count else math.nan
    return Moments(mean, float(values.std(ddof=1)) if count > 1 else math.nan, count)


# Indentation, label, figure; a label without a figure heads a group.
_ROWS: tuple[tuple[int, str, str | None], ...] = (
    (0, "Evidence", None),
    (1, "symptoms", "symptoms"),
    (2, "present", "symptoms_present"),
    (2, "absent", "symptoms_absent"),
    (1, "risk factors", "risk_factors"),
    (2, "present", "risk_factors_present"),
    (2, "absent", "risk_factors_absent"),
    (0, "Triage decisions", None),
    (1, "number per vignette", "decisions_per_vignette"),
    (1, "distribution", None),
    *((2, label, f"share_{label}") for label in DECISION_LABELS),
    (0, f"Inter-expert ({MINIMUM_DECISIONS}+ decisions)", None),
    (1, "appropriateness", "inter_expert_appropriateness"),
    (1, "safety", "inter_expert_safety"),
    (0, "Always Green", None),
    (1, "appropriateness", "always_green_appropriateness"),
    (1, "safety", "always_green_safety"),
)
_WITH_RANGE = "decisions_per_vignette"


def statistics_table(found: Statistics) -> Table:
    """Returns the table beside the paper's; N counts the vignettes of each figure."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("mean (SD) over vignettes", overflow="fold")
    for heading in ("this data", "N", "paper", "N"):
        table.add_column(heading, justify="right", overflow="fold")
    for indentation, label, name in _ROWS:
        text = "  " * indentation + label
        if name is None:
            table.add_row(text)
            continue
        ours, paper = found.figures[name], PAPER_FIGURES[name]
        table.add_row(text, _cell(ours), f"{ours.vignettes:,}", _cell(paper), f"{paper.vignettes:,}")
        if name == _WITH_RANGE:
            ranges = ["-" if pair is None else f"{pair[0]} - {pair[1]}" for pair in (found.decisions, PAPER.decisions)]
            table.add_row("    fewest - most", ranges[0], "", ranges[1], "")
    return table


def to_json(found: Statistics) -> dict[str, Any]:
    """Returns the same figures for a JSON file, NaN as None."""
    fewest, most = found.decisions or (None, None)
    figures = {
        name: {key: None if math.isnan(value) else value for key, value in each._asdict().items()}
        for name, each in found.figures.items()
    }
    return {"figures": figures, "fewest_decisions": fewest, "most_decisions": most}


def _cell(moments: Moments) -> str:
    if math.isnan(moments.mean):
        return "-"
    return f"{moments.mean:.2f}" + ("" if math.isnan(moments.sd) else f" ({moments.sd:.2f})")

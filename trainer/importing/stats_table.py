"""Figures of vignettes beside the paper's, in the rows of its table "Clinical vignettes statistics"."""

import math
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table

from schemas.triage import DECISION_LABELS
from trainer.importing.vignette_statistics import MINIMUM_DECISIONS, PAPER, PAPER_DECISIONS, Moments

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


def statistics_table(moments: Mapping[str, Moments], decisions: tuple[int, int] | None) -> Table:
    """Returns the table; N counts the vignettes of each figure.

    Args:
        moments: the figures, by the names of `PAPER`.
        decisions: fewest and most decisions of a vignette; None if there are no vignettes.
    """
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("mean (SD) over vignettes", overflow="fold")
    for heading in ("this data", "N", "paper", "N"):
        table.add_column(heading, justify="right", overflow="fold")
    for indentation, label, name in _ROWS:
        text = "  " * indentation + label
        if name is None:
            table.add_row(text)
            continue
        ours, paper = moments[name], PAPER[name]
        table.add_row(text, _cell(ours), f"{ours.vignettes:,}", _cell(paper), f"{paper.vignettes:,}")
        if name == _WITH_RANGE:
            ranges = ["-" if pair is None else f"{pair[0]} - {pair[1]}" for pair in (decisions, PAPER_DECISIONS)]
            table.add_row("    fewest - most", ranges[0], "", ranges[1], "")
    return table


def to_json(moments: Mapping[str, Moments], decisions: tuple[int, int] | None) -> dict[str, Any]:
    """Returns the same figures for a JSON file, NaN as None."""
    fewest, most = decisions if decisions is not None else (None, None)
    return {
        "figures": {name: _figures(moments[name]) for name in PAPER},
        "fewest_decisions": fewest,
        "most_decisions": most,
    }


def _figures(moments: Moments) -> dict[str, float | None]:
    return {key: None if math.isnan(value) else value for key, value in moments._asdict().items()}


def _cell(moments: Moments) -> str:
    if math.isnan(moments.mean):
        return "-"
    return f"{moments.mean:.2f}" + ("" if math.isnan(moments.sd) else f" ({moments.sd:.2f})")

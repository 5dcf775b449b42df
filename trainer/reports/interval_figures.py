"""Figures of means with their intervals: the agents, and slices of the vignettes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from trainer.evaluation.estimates import Estimate, Estimates
from trainer.reports.drawing import Drawing, Key, Panel, colour, label_rows, row_panel_height, share_limits
from trainer.reports.numbers import (
    APPROPRIATENESS,
    QUESTIONS,
    SAFETY,
    TARGETS,
    Measure,
    Table,
    agents_of,
    count,
    estimate_at,
    number_at,
    shown,
    value_at,
    with_interval,
)


class Slice(NamedTuple):
    """Vignettes that have something in common."""

    name: str
    vignettes: int | None
    metrics: Estimates


class Row(NamedTuple):
    """One mean of a panel."""

    label: str
    estimate: Estimate | None
    mark: float | None = None  # the paper's figure


def agents_figure(results: Mapping[str, Any]) -> Drawing | None:
    """Returns appropriateness and safety of all agents beside the paper's figures; None without agents."""
    agents = list(agents_of(results).values())
    panels = []
    for measure in (APPROPRIATENESS, SAFETY):
        rows = [
            Row(_label(agent), estimate_at(agent, "metrics", measure.key), number_at(agent, "paper", measure.key))
            for agent in agents
        ]
        if any(row.estimate is not None for row in rows):
            panels.append(interval_panel(measure, rows))
    if not panels:
        return None
    return Drawing(
        "agents",
        "How often each agent decides appropriately and safely. Dot: mean; line: 95% interval; diamond: the paper's "
        "figure for its own data. Further right is better. All are judged by all clinicians, the clinicians by each "
        "other; for what differs between two of them, read the claims, which compare them vignette by vignette.",
        "; ".join(_message(agent) for agent in agents) + ".",
        tuple(panels),
        (Key("this study", "blue", "-", "o"), Key("the paper", "orange", marker="D")),
    )


def slices_figure(results: Mapping[str, Any]) -> Drawing | None:
    """Returns the agent's figures on each slice of the test vignettes; None without slices."""
    return slices_drawing(
        [
            Slice(
                str(entry.get("slice")).replace("=", ": ", 1),
                entry.get("vignettes"),
                {measure.key: estimate_at(entry, measure.key) for measure in TARGETS},
            )
            for entry in results.get("slices") or []
        ]
    )


def slices_drawing(slices: Sequence[Slice]) -> Drawing | None:
    """Returns the agent's figures on each slice; None without slices."""
    panels = []
    for measure in TARGETS:
        rows = [Row(f"{each.name} ({count(each.vignettes)})", each.metrics[measure.key]) for each in slices]
        if any(row.estimate is not None for row in rows):
            panels.append(interval_panel(measure, rows))
    if not panels:
        return None
    safety = [(value.mean, each.name) for each in slices if (value := each.metrics[SAFETY.key]) is not None]
    alt = f"Intervals on {len(slices)} slices."
    if safety:
        (lowest, worst), (highest, best) = min(safety), max(safety)
        alt = f"Safety ranges from {shown(SAFETY, lowest)} ({worst}) to {shown(SAFETY, highest)} ({best})."
    return Drawing(
        "slices",
        "The agent on slices of the vignettes, with their numbers in brackets. The agent is weaker on slices whose "
        "whole line is left of the others. Slices of few vignettes have long lines, which say little.",
        alt,
        tuple(panels),
        numbers=_slices_table(slices),
    )


def _slices_table(slices: Sequence[Slice]) -> Table:
    return Table(
        "The agent on slices of the test vignettes: mean (95% interval)",
        ("Slice", "Vignettes", *(measure.label for measure in TARGETS)),
        tuple(
            (
                each.name,
                count(each.vignettes),
                *(with_interval(measure, each.metrics[measure.key]) for measure in TARGETS),
            )
            for each in slices
        ),
    )


def _label(agent: Any) -> str:
    return str(value_at(agent, "label"))


def _message(agent: Any) -> str:
    means = (
        f"{measure.label.lower()} {shown(measure, number_at(agent, 'metrics', measure.key, 'mean'))}"
        for measure in (APPROPRIATENESS, SAFETY)
    )
    return f"{_label(agent)}: {', '.join(means)}"


def interval_panel(measure: Measure, rows: list[Row]) -> Panel:
    """Returns means with their intervals, one below the other."""
    title = f"{measure.label} (mean)" if measure is QUESTIONS else measure.label
    return Panel(title, _intervals(measure, rows), row_panel_height(len(rows)))


def _intervals(measure: Measure, rows: list[Row]) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        for place, row in enumerate(rows):
            if row.estimate is not None and row.estimate.low is not None:
                axes.plot(
                    [row.estimate.low, row.estimate.high],
                    [place, place],
                    color=colour("blue"),
                    linewidth=2.5,
                    solid_capstyle="butt",
                )
            if row.estimate is not None:
                axes.plot(row.estimate.mean, place, "o", color=colour("blue"), markersize=7)
            if row.mark is not None:
                # Below the dot, so that the two show where they agree.
                axes.plot(row.mark, place + 0.17, "D", color=colour("orange"), fillstyle="none", markeredgewidth=1.6)
        label_rows(axes, [(row.label, shown(measure, row.estimate and row.estimate.mean)) for row in rows])
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        if measure.share:
            axes.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
            known = [end for row in rows if row.estimate for end in row.estimate[:2]]
            axes.set_xlim(*share_limits([end for end in (*known, *(row.mark for row in rows)) if end is not None]))
        else:
            axes.set_xlim(left=0)

    return draw

"""Figures of one agent: beside clinicians, its operating point, learning and confidence, and slices of patients."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from trainer.evaluation.estimates import Calibration, Estimate, SliceFigures
from trainer.evaluation.frontier import Point
from trainer.reports.agent_report import AgentReport, Evaluated, ValidationLoss
from trainer.reports.drawing import Drawing, Key, Panel, colour, share_limits
from trainer.reports.headline import beside_clinicians
from trainer.reports.interval_figures import Row, Slice, interval_panel, slices_drawing
from trainer.reports.learning_figures import thousands
from trainer.reports.numbers import (
    APPROPRIATENESS,
    FEWEST,
    OVER_TRIAGE,
    QUESTIONS,
    RED_SENSITIVITY,
    SAFETY,
    TARGETS,
    Measure,
    Table,
    count,
    shown,
    with_interval,
)
from trainer.reports.quality_figures import Confidence, confusion_drawing, reliability_drawing

MOST_SLICES = 8
"""Values of one tag that the figure shows, the largest ones; `--json` has all of them."""
_KINDS = {"majority": "clinicians' majority", "evidence": "pieces of evidence"}


def beside_figure(report: AgentReport) -> Drawing | None:
    """Returns agent, agent with rules, and clinicians side by side; None if that cannot be compared."""
    rows = beside_clinicians(report)
    measures = (RED_SENSITIVITY, SAFETY, APPROPRIATENESS)
    panels = []
    for measure in measures:
        dots = [Row(row.label, _if_enough(row.metrics.get(measure.key))) for row in rows]
        if any(dot.estimate is not None for dot in dots):
            panels.append(interval_panel(measure, dots))
    if not panels:
        return None
    safeties = ((row.label, row.metrics.get(SAFETY.key)) for row in rows)
    summaries = (f"{label}: safety {shown(SAFETY, safety and safety.mean)}" for label, safety in safeties)
    return Drawing(
        "beside",
        "Dot: mean; line: 95% interval. Further right is better. Where two lines overlap widely, the vignettes do not "
        "show which is better.",
        "; ".join(summaries) + ".",
        tuple(panels),
    )


def _if_enough(estimate: Estimate | None) -> Estimate | None:
    return estimate if estimate is not None and (estimate.vignettes or 0) >= FEWEST else None


def frontier_figure(report: AgentReport) -> Drawing | None:
    """Returns what each safety weight gains and costs, with the agent's own; None for an agent without one."""
    points = report.frontier
    if not points:
        return None
    red = any(point.red_sensitivity is not None for point in points)
    measures = (SAFETY, RED_SENSITIVITY) if red else (SAFETY,)
    rows = tuple(
        (
            f"{point.safety_weight:g}{' (this agent)' if point.chosen else ''}",
            f"price {point.price:g}" + ("" if point.sure_enough is None else f", threshold {point.sure_enough:g}"),
            *(_point_cell(measure, point) for measure in (SAFETY, APPROPRIATENESS, OVER_TRIAGE, RED_SENSITIVITY)),
            shown(QUESTIONS, point.questions),
        )
        for point in points
    )
    columns = ("Safety weight", "Asks until", *(measure.label for measure in (SAFETY, APPROPRIATENESS, OVER_TRIAGE,
               RED_SENSITIVITY, QUESTIONS)))  # fmt: skip
    own = next((point for point in points if point.chosen), None)
    return Drawing(
        "frontier",
        "What other operating points would give, from the least safety weight (left) to the largest: more safety "
        "costs more over-triage. Each point is this agent with another weight; the lines through its own point are 95% "
        "intervals. The weight can be changed without training.",
        _own_point(own),
        tuple(Panel(f"{measure.label}, by over-triage", _frontier(points, measure)) for measure in measures),
        (Key("this agent", "orange", marker="o"), Key("other safety weights", "blue", "-", "o")),
        Table("The point: mean (95% interval)", columns, rows),
    )


def _own_point(own: Point | None) -> str:
    if own is None:
        return "None of these weights is the agent's own."
    safety, over = shown(SAFETY, own.safety), shown(OVER_TRIAGE, own.over_triage)
    return f"This agent, weight {own.safety_weight:g}: safety {safety}, over-triage {over}."


def _point_cell(measure: Measure, point: Point) -> str:
    mean = getattr(point, measure.key)
    return with_interval(measure, None if mean is None else Estimate(mean, *point.intervals[measure.key]))


def _frontier(points: Sequence[Point], measure: Measure) -> Callable[[Axes], None]:
    known = [point for point in points if getattr(point, measure.key) is not None]

    def draw(axes: Axes) -> None:
        places = [(point.over_triage, getattr(point, measure.key)) for point in known]
        axes.plot(*zip(*places, strict=True), "-o", color=colour("blue"), markersize=5)
        for point, (x, y) in zip(known, places, strict=True):
            if point.chosen:
                left, right = point.intervals[OVER_TRIAGE.key]
                low, high = point.intervals[measure.key]
                if None not in (left, right, low, high):
                    axes.plot([left, right], [y, y], color=colour("orange"))
                    axes.plot([x, x], [low, high], color=colour("orange"))
                axes.plot(x, y, "o", color=colour("orange"), markersize=10)
        axes.set_xlabel("over-triage")
        axes.set_ylim(*share_limits([share for _, share in places]))
        axes.set_xlim(left=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(_percent))

    return draw


def _percent(share: float, _: int) -> str:
    return f"{100 * share:.0f}%" if share < 1 + 1e-9 else ""


def training_figure(report: AgentReport) -> Drawing | None:
    """Returns the agent's quality and validation loss over its training; None if nothing was recorded."""
    evaluations, losses = report.learning
    panels = [
        Panel(f"{measure.label}, test split", _learning(evaluations, measure))
        for measure in (APPROPRIATENESS, SAFETY, QUESTIONS)
        if evaluations
    ]
    if losses:
        panels.append(Panel("Validation loss", _loss(losses)))
    if not panels:
        return None
    summaries = []
    if evaluations:
        first, last = (shown(SAFETY, evaluations[place].metrics[SAFETY.key].mean) for place in (0, -1))
        summaries.append(f"Safety from {first} at the first evaluation to {last} at the last")
    if losses:
        summaries.append(f"validation loss from {losses[0].loss:.3f} to {losses[-1].loss:.3f}")
    return Drawing(
        "learning_curve",
        "Its training, as the job directory recorded it. Bands are 95% intervals over test vignettes. A curve that "
        "still rises at the right edge shows that more steps, or more vignettes, may help."
        + (" The validation loss is that on vignettes from which a network does not learn." if losses else ""),
        "; ".join(summaries) + ".",
        tuple(panels),
        numbers=_learning_table(evaluations),
    )


def _learning_table(evaluations: Sequence[Evaluated]) -> Table | None:
    measures = (APPROPRIATENESS, SAFETY, OVER_TRIAGE, QUESTIONS)
    rows = tuple(
        (count(each.step), *(with_interval(measure, each.metrics[measure.key]) for measure in measures))
        for each in evaluations
    )
    columns = ("Step", *(measure.label for measure in measures))
    return Table("Evaluations during training: mean (95% interval)", columns, rows) if rows else None


def _learning(evaluations: Sequence[Evaluated], measure: Measure) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        steps = [each.step for each in evaluations]
        estimates = [each.metrics[measure.key] for each in evaluations]
        axes.plot(steps, [each.mean for each in estimates], "-o", color=colour("blue"), markersize=5)
        if all(each.low is not None for each in estimates):
            _, lows, highs, _ = zip(*estimates, strict=True)
            axes.fill_between(steps, lows, highs, color=colour("blue"), alpha=0.15, linewidth=0)
        _by_step(axes)
        if measure.share:
            axes.set_ylim(*share_limits([each.low or each.mean for each in estimates]))
            axes.yaxis.set_major_formatter(FuncFormatter(_percent))
        else:
            axes.set_ylim(bottom=0)

    return draw


def _loss(points: Sequence[ValidationLoss]) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        axes.plot(*zip(*points, strict=True), "-o", color=colour("purple"), markersize=4)
        _by_step(axes)

    return draw


def _by_step(axes: Axes) -> None:
    axes.set_xlabel("training steps")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))


def own_confusion_figure(report: AgentReport) -> Drawing | None:
    """Returns the confusion matrix."""
    return confusion_drawing(report.confusion.labels, report.confusion.matrix, FEWEST)


def appropriate_figure(report: AgentReport) -> Drawing | None:
    """Returns the reliability of P(appropriate), or of the Q-values of an agent without probabilities."""
    if report.probabilities:
        of = Confidence("reliability_appropriate", "P(appropriate)", "appropriate")
        return _reliability(of, report.probabilities["own_decision"]["appropriate"])
    of = Confidence("reliability_appropriate", "Q-value", "appropriate")
    return _reliability(of, report.calibration["best_decision"]) if report.calibration else None


def safe_figure(report: AgentReport) -> Drawing | None:
    """Returns the reliability of P(safe); None for an agent without probabilities."""
    of = Confidence("reliability_safe", "P(safe)", "safe")
    return _reliability(of, report.probabilities["own_decision"]["safe"]) if report.probabilities else None


def _reliability(of: Confidence, calibration: Calibration) -> Drawing | None:
    bins = [each for each in calibration.curve if _if_enough(each.observed)]
    return reliability_drawing(of, bins, calibration.expected_calibration_error.mean)


def own_slices_figure(report: AgentReport) -> Drawing | None:
    """Returns the agent's figures on each slice, of a tag's the largest; None without slices."""
    return slices_drawing(
        [
            Slice(
                slice_name(each.by, each.value).replace("=", ": ", 1),
                each.vignettes,
                {measure.key: _if_enough(each.metrics[measure.key]) for measure in TARGETS},
            )
            for each in shown_slices(report)
        ]
    )


def shown_slices(report: AgentReport) -> list[SliceFigures]:
    """Returns the slices that the page shows."""
    kinds: dict[str, list[SliceFigures]] = {}
    for entry in report.slices:
        kinds.setdefault(entry.by, []).append(entry)
    chosen: list[SliceFigures] = []
    for entries in kinds.values():
        tagged = entries[0].by.startswith("tag")
        largest = sorted(entries, key=lambda entry: -entry.vignettes)[: MOST_SLICES if tagged else None]
        chosen += [entry for entry in entries if entry in largest]
    return chosen


def slice_name(by: str, value: str) -> str:
    """Returns the name of a slice, such as "age: 75 years old or over"."""
    kind, _, rest = by.partition(":")
    return f"{rest or _KINDS.get(kind, kind)}: {value}"

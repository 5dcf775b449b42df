"""Figures of the quality of decisions: by evidence, by the agent's confidence, and by urgency."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter

from trainer.evaluation.estimates import Estimate, ReliabilityBin
from trainer.reports.drawing import FILLS, STRONGEST, Drawing, Key, Panel, colour, share_limits
from trainer.reports.numbers import (
    APPROPRIATENESS,
    FEWEST,
    SAFETY,
    Measure,
    Table,
    count,
    number_at,
    shown,
    value_at,
    with_interval,
)

_MODELS = {
    "calibrated": ("supervised model, calibrated", "blue", "-"),
    "uncalibrated": ("supervised model, not calibrated", "orange", "--"),
    "dyqn_or": ("DyQN, OR query", "green", "-."),
}


def evidence_figure(results: Mapping[str, Any]) -> Drawing | None:
    """Returns the quality of the decisions by pieces of evidence (paper, figure "Performance comparison")."""
    curves = results.get("by_evidence") or {}
    models = {
        name: points
        for name in _MODELS
        if (points := [each for each in curves.get(name) or [] if (number_at(each, "vignettes") or 0) >= FEWEST])
    }
    if not models:
        return None
    confidence = Measure("confidence", "Model's own confidence", True)
    measures = (APPROPRIATENESS, SAFETY, confidence)
    panels = [
        Panel(measure.label, _by_evidence(models, measure))
        for measure in measures
        if any(number_at(point, measure.key) is not None for points in models.values() for point in points)
    ]
    longest = max(models.values(), key=len)
    panels.append(Panel("States", _bars([(point.get("pieces"), point.get("states")) for point in longest])))
    rows = tuple(
        (
            _MODELS[name][0],
            count(point.get("pieces")),
            count(point.get("states")),
            count(point.get("vignettes")),
            *(shown(measure, number_at(point, measure.key)) for measure in measures),
        )
        for name, points in models.items()
        for point in points
    )
    columns = ("Model", "Pieces", "States", "Vignettes", *(measure.label for measure in measures))
    return Drawing(
        "by_evidence",
        "Quality of decisions on states with a number of pieces of evidence, drawn from the expanded data set (D_pow) "
        "of the test vignettes; bands are 95% intervals. A calibrated model should improve steadily with more "
        "evidence, so that its confidence shows when it knows enough. Last panel: the number of states. Points with "
        f"fewer than {FEWEST} vignettes are left out.",
        "; ".join(_rise(name, points) for name, points in models.items()) + ".",
        tuple(panels),
        tuple(Key(*_MODELS[name]) for name in models),
        Table("Quality by pieces of evidence", columns, rows),
    )


class Confidence(NamedTuple):
    """What an agent says of its decisions, and what came true."""

    name: str  # of the drawing
    said: str  # such as "Q-value"
    true: str  # what the share counts, such as "appropriate"


def reliability_figure(results: Mapping[str, Any]) -> Drawing | None:
    """Returns how often decisions of some Q-value are appropriate, with the number of decisions in each bin."""
    return reliability_drawing(
        Confidence("reliability", "Q-value", "appropriate"),
        [
            ReliabilityBin(each["low"], each["high"], each["count"], number_at(each, "mean_q"), _observed(each))
            for each in value_at(results, "reliability", "bins") or []
        ],
        number_at(results, "reliability", "ece"),
    )


def _observed(each: Mapping[str, Any]) -> Estimate | None:
    observed, interval = number_at(each, "observed"), each.get("interval")
    return None if observed is None else Estimate(observed, number_at(interval, "low"), number_at(interval, "high"))


def reliability_drawing(of: Confidence, bins: Sequence[ReliabilityBin], error: float | None) -> Drawing | None:
    """Returns what share of the decisions came true, by what the agent said of them; None without decisions.

    Args:
        of: what was said.
        bins: of what was said, with what came true; empty ones are left out.
        error: expected calibration error, None if not measured.
    """
    bins = [each for each in bins if each.states]
    points = [
        (each.predicted, each.observed.mean)
        for each in bins
        if each.predicted is not None and each.observed is not None
    ]
    if not points:
        return None
    share = APPROPRIATENESS
    rows = tuple(
        (
            f"{each.low:.1f} to {each.high:.1f}",
            count(each.states),
            shown(share, each.predicted),
            with_interval(share, each.observed),
        )
        for each in bins
    )
    farthest = max(points, key=lambda point: abs(point[0] - point[1]))
    middles = [((each.low + each.high) / 2, each.states) for each in bins]
    true = of.true.capitalize()
    return Drawing(
        of.name,
        f"First panel: the share of {of.true} decisions by the {of.said} of the "
        f"decision. On the dashed diagonal, a confidence of 80% means that 80% are {of.true}; below it, the agent is "
        "overconfident. Second panel: the number of decisions behind each dot.",
        f"Farthest from the diagonal: {of.said} {shown(share, farthest[0])}, {of.true} {shown(share, farthest[1])}. "
        f"Expected calibration error {'not measured' if error is None else f'{error:.3f}'}.",
        (
            Panel(f"{true}, by {of.said}", _diagonal(points, bins, of.said)),
            Panel(f"Decisions, by {of.said}", _bars(middles, width=0.09, label=of.said)),
        ),
        numbers=Table("Reliability", (of.said, "Decisions", f"Mean {of.said}", true), rows),
    )


def confusion_figure(results: Mapping[str, Any]) -> Drawing | None:
    """Returns the confusion matrix of a study, see `confusion_drawing`."""
    labels = [str(label) for label in value_at(results, "agreement", "labels") or []]
    return confusion_drawing(labels, value_at(results, "agreement", "confusion"))


def confusion_drawing(labels: Sequence[str], matrix: Any, fewest: float = 0) -> Drawing | None:
    """Returns the confusion matrix, in shares of each row: what the clinicians decided, and what the agent did.

    Args:
        labels: of rows and columns, the most urgent first.
        matrix: rows are the clinicians' decisions, columns the agent's; None if not measured.
        fewest: rows with a smaller sum have no shares.
    """
    if not matrix or len(matrix) != len(labels):
        return None
    matrix = [row or [None] * len(labels) for row in matrix]
    enough = (sum(value or 0 for value in row) >= fewest for row in matrix)
    shares = [
        _row_shares(row if there else []) or [None] * len(labels) for row, there in zip(matrix, enough, strict=True)
    ]
    below = sum(value or 0 for place, row in enumerate(matrix) for value in row[place + 1 :])
    total = sum(value or 0 for row in matrix for value in row)
    rows = tuple(
        (f"A clinician: {label}", *(shown(APPROPRIATENESS, value) for value in row))
        for label, row in zip(labels, shares, strict=True)
    )
    diagonal = (f"{label} {shown(APPROPRIATENESS, shares[place][place])}" for place, label in enumerate(labels))
    less = f" Less urgent than the clinician in {shown(APPROPRIATENESS, below / total)} of all pairs." if total else ""
    return Drawing(
        "confusion",
        "The agent's decision (columns) for each decision of a clinician (rows); each row adds up to 100%. On the "
        "diagonal they agree. Right of the thick line the agent is less urgent than the clinician, which is the "
        f"dangerous side.{less}",
        f"The agent agrees with the clinician in: {', '.join(diagonal)}.{less}",
        (Panel("Clinician (rows) and agent (columns)", _cells(labels, shares), height=4.2),),
        (Key("right of this line: less urgent, dangerous", "ink", "-"),),
        Table("Confusion matrix", ("Decision", *(f"The agent: {label}" for label in labels)), rows),
    )


def _row_shares(row: Sequence[float | None]) -> list[float | None]:
    total = sum(value or 0 for value in row)
    return [(value or 0) / total if total else None for value in row]


def _rise(name: str, points: Sequence[Any]) -> str:
    first, last = (shown(APPROPRIATENESS, number_at(points[place], "appropriateness")) for place in (0, -1))
    pieces = [count(points[place].get("pieces")) for place in (0, -1)]
    return f"{_MODELS[name][0]}: appropriate in {first} with {pieces[0]} and {last} with {pieces[1]} pieces of evidence"


def _by_evidence(models: Mapping[str, Any], measure: Measure) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        for name, points in models.items():
            _, tone, line = _MODELS[name]
            pairs = [
                (point["pieces"], value) for point in points if (value := number_at(point, measure.key)) is not None
            ]
            if pairs:
                axes.plot(*zip(*pairs, strict=True), color=colour(tone), linestyle=line, marker="o", markersize=4)
            bands = [(point["pieces"], *ends) for point in points if (ends := _interval(point, measure))]
            if bands:
                pieces, lows, highs = zip(*bands, strict=True)
                axes.fill_between(pieces, lows, highs, color=colour(tone), alpha=0.15, linewidth=0)
        values = (number_at(point, measure.key) for points in models.values() for point in points)
        axes.set_ylim(*share_limits([value for value in values if value is not None]))
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("pieces of evidence")

    return draw


def _interval(point: Any, measure: Measure) -> tuple[float, float] | None:
    low, high = value_at(point, "intervals", measure.key) or (None, None)
    return None if low is None or high is None else (low, high)


def _bars(
    pairs: Sequence[tuple[Any, Any]], width: float = 0.8, label: str = "pieces of evidence"
) -> Callable[[Axes], None]:
    known = [(place, height) for place, height in pairs if place is not None and height is not None]

    def draw(axes: Axes) -> None:
        axes.bar([place for place, _ in known], [height for _, height in known], width, color=colour("muted"))
        axes.grid(visible=False, axis="x")
        axes.set_xlabel(label)
        if width < 0.5:
            axes.set_xlim(0, 1)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))

    return draw


def _diagonal(
    points: Sequence[tuple[float, float]], bins: Sequence[ReliabilityBin], label: str
) -> Callable[[Axes], None]:
    ends = [(each.predicted, *each.observed[1:3]) for each in bins if each.observed and each.observed.low is not None]

    def draw(axes: Axes) -> None:
        for place, low, high in ends:
            axes.plot([place, place], [low, high], color=colour("blue"), alpha=0.5, solid_capstyle="butt")
        axes.plot([0, 1], [0, 1], color=colour("muted"), linestyle="--", linewidth=1.2)
        axes.plot(*zip(*points, strict=True), "-o", color=colour("blue"), markersize=6)
        axes.set_xlim(0, 1.02)
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        axes.set_xlabel(label)

    return draw


def _cells(labels: Sequence[str], shares: Sequence[Sequence[float | None]]) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        for row, values in enumerate(shares):
            for column, value in enumerate(values):
                shade = STRONGEST * (value or 0)
                tone = f"triage-{labels[column].lower()}"
                fill = colour(tone if tone in FILLS else "blue")
                axes.add_patch(Rectangle((column - 0.48, row - 0.48), 0.96, 0.96, color=fill, alpha=shade, lw=0))
                axes.text(column, row, shown(APPROPRIATENESS, value), ha="center", va="center", fontsize=12)
        places = range(len(labels))
        steps = [(row + 0.5, edge) for row in places[:-1] for edge in (row - 0.5, row + 0.5)]
        steps.append((len(labels) - 0.5, len(labels) - 1.5))
        axes.plot(*zip(*steps, strict=True), color=colour("ink"), linewidth=2.5, clip_on=False)
        axes.set_xticks(places, labels)
        axes.set_yticks(places, labels)
        axes.tick_params(labelcolor=colour("ink"))
        axes.set_xlim(-0.5, len(labels) - 0.5)
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.set_xlabel("the agent")
        axes.set_ylabel("a clinician")
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)

    return draw

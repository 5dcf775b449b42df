"""The report of the paper's study: a page with tables and two figures."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from trainer.reports.drawing import DASHES, SERIES, Drawing, Key, Subplot, colour
from trainer.reports.numbers import NONE, Table
from trainer.reports.page import clean, page

_CURVES = {name: name.capitalize() for name in ("appropriateness", "safety", "questions")}
_QUALITY = ("appropriateness", "safety")
_MODELS = ("calibrated", "uncalibrated")
Line = tuple[Sequence[float], Any]  # the x and the y of its points


def report(results: dict[str, Any]) -> str:
    """Returns the page, which stands alone."""
    results = clean(results)
    drawings = [_learning_figure(results), _calibration_figure(results["calibration"])]
    return page(
        "report.html.jinja",
        {drawing.name: drawing for drawing in drawings},
        simulated="The vignettes are simulated." if results["data"]["simulated"] else "",
        tables=[agents_table(results), *([_folds_table(results["folds"])] if results["folds"] else [])],
        data=results["data"],
        command=results["provenance"]["command"],
    )


def agents_table(results: Mapping[str, Any]) -> Table:
    """Returns the paper's table of agents, with this study's numbers beside the paper's."""
    rows = []
    for agent in results["agents"].values():
        cells = []
        for name in _CURVES:
            paper = agent["paper"][name]
            shown = _estimate(agent["test"].get(name)) if paper is not None or name in _QUALITY else "all evidence"
            cells.append(shown if paper is None else f"{shown} [{paper:.2f}]")
        train = agent["train"].get("questions")
        cells.append(NONE if train is None or agent["paper"]["questions"] is None else f"{train:.2f}")
        cells += [_estimate((agent["dyqn_or_minus"] or {}).get(name), "+") for name in _QUALITY]
        rows.append((agent["label"], *cells))
    differences = ("DyQN-OR minus it: appropriateness", "safety")
    columns = ("Agent", *_CURVES.values(), "Questions, training", *differences)
    return Table(
        "Test vignettes: mean (95% interval over vignettes; SD over trainings) [the paper's own]. Differences are "
        "paired, on vignettes with three or more decisions, both scored against all clinicians but one",
        columns,
        tuple(rows),
    )


def _folds_table(folds: Mapping[str, Any]) -> Table:
    rows = []
    for name, label in _CURVES.items():
        values = [run[name] for run in folds["runs"]]
        mean, low, high = folds["paper"][name]
        paper = f"{mean:.2f}" if low is None else f"{mean:.2f}, {low:.2f} to {high:.2f}"
        rows.append((label, _estimate(folds["mean"][name]), f"{min(values):.3f} to {max(values):.3f}", paper))
    return Table(
        "Cross-validation of DyQN, OR query", ("Metric", "Mean", "Lowest and highest fold", "The paper's"), tuple(rows)
    )


def _estimate(figure: Mapping[str, Any] | None, sign: str = "") -> str:
    if figure is None:
        return NONE
    text = f"{figure['mean']:{sign}.3f}"
    spread = figure.get("sd_over_seeds")
    notes = [] if figure["low"] is None else [f"{figure['low']:{sign}.3f} to {figure['high']:{sign}.3f}"]
    notes += [] if spread is None else [f"SD {spread:.3f}"]
    return f"{text} ({'; '.join(notes)})" if notes else text


def _learning_figure(results: Mapping[str, Any]) -> Drawing:
    """Returns the three metrics over training, on both splits (paper, fig:learning_rate); means over trainings."""
    curves = results["curves"]
    panels = {
        f"{label}, {words} vignettes": [
            (runs[0]["steps"], np.mean([run[split][metric] for run in runs], axis=0)) for runs in curves.values()
        ]
        for split, words in (("train", "training"), ("test", "test"))
        for metric, label in _CURVES.items()
    }
    caption = "Learning on training vignettes and on test vignettes, means over trainings."
    labels = [results["agents"][agent]["label"] for agent in curves]
    return _drawing("learning_curves", caption, labels, panels, "Steps")


def _calibration_figure(calibration: Mapping[str, Any]) -> Drawing:
    """Returns both ensembles by pieces of evidence (paper, fig:annex_calibrated_vs_non_calibrated)."""
    points = calibration["by_pieces"]
    pieces = [point["pieces"] for point in points]
    panels = {
        _CURVES[metric]: [(pieces, [point[model][metric] for point in points]) for model in _MODELS]
        for metric in _QUALITY
    }

    def rows(axes: Axes) -> None:
        axes.bar(pieces, [point["rows"] for point in points], color=colour("muted"))
        axes.set_xlabel("Pieces of evidence")

    differences = [f"{name} {_estimate(each, '+')}" for name, each in calibration["small_sets"].items()]
    caption = (
        f"The ensembles of D_pow by pieces of evidence, on {calibration['rows']:,} rows of its test part. Calibrated "
        f"minus uncalibrated on one to three pieces: {', '.join(differences) or 'not measured'}."
    )
    drawing = _drawing("calibration", caption, [model.capitalize() for model in _MODELS], panels, "Pieces of evidence")
    return drawing._replace(panels=(*drawing.panels, Subplot("Rows", rows)))


def _drawing(name: str, caption: str, labels: Sequence[str], panels: Mapping[str, Sequence[Line]], x: str) -> Drawing:
    """Returns a figure of lines, one for each of `labels` in each of `panels`, by their titles."""
    keys = tuple(map(Key, labels, SERIES, DASHES))

    def draw(lines: Sequence[Line], axes: Axes) -> None:
        for key, line in zip(keys, lines, strict=True):
            axes.plot(*line, color=colour(key.colour), linestyle=key.line)
        axes.set_xlabel(x)

    drawn = tuple(Subplot(title, functools.partial(draw, lines)) for title, lines in panels.items())
    return Drawing(name, caption, caption, drawn, keys)

"""The report of the paper's study: a page with tables and two figures, and the tables as Markdown."""

import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from schemas.errors import InputError
from trainer.reports.drawing import DASHES, SERIES, Drawing, Key, Panel, colour
from trainer.reports.numbers import NONE, Table
from trainer.reports.page import clean, page

REPORT, MARKDOWN = "report.html", "results.md"
_CURVES = {"appropriateness": "Appropriateness", "safety": "Safety", "questions": "Questions"}
_QUALITY = ("appropriateness", "safety")
_MODELS = ("calibrated", "uncalibrated")
# What Markdown reads as more than a letter.
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|])")


def write_report(results: dict[str, Any], out: pathlib.Path) -> None:
    """Writes report.html, which stands alone, and results.md.

    Raises:
        InputError: `out` cannot be written.
    """
    cleaned = clean(results)
    drawings = [_learning_figure(cleaned), _calibration_figure(cleaned["calibration"])]
    simulated = "The vignettes are simulated." if cleaned["data"]["simulated"] else ""
    tables = [agents_table(cleaned), *([_folds_table(cleaned["folds"])] if cleaned["folds"] else [])]
    text = page(
        "report.html.jinja", {drawing.name: drawing for drawing in drawings}, simulated=simulated,
        tables=tables, data=cleaned["data"], command=cleaned["provenance"]["command"],
    )  # fmt: skip
    try:
        (out / MARKDOWN).write_text(f"{simulated}\n\n".lstrip() + "\n".join(map(_markdown, tables)), encoding="utf-8")
        (out / REPORT).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--out {out}: cannot write the report: {error.strerror or error}") from error


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
        differences = agent["dyqn_or_minus"] or {}
        cells.append(NONE if train is None or agent["paper"]["questions"] is None else f"{train:.2f}")
        cells += [_estimate(differences.get(name), "+") for name in _QUALITY]
        rows.append((agent["label"], *cells))
    columns = (
        "Agent", *_CURVES.values(), "Questions, training", "DyQN-OR minus it: appropriateness", "safety"
    )  # fmt: skip
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


def _markdown(table: Table) -> str:
    lines = [table.columns, ("---",) * len(table.columns), *table.rows]
    escaped = ["| " + " | ".join(_SPECIAL.sub(r"\\\1", cell) for cell in line) + " |" for line in lines]
    return f"{table.caption}:\n\n" + "\n".join(escaped) + "\n"


def _learning_figure(results: Mapping[str, Any]) -> Drawing:
    """Returns the three metrics over training, on both splits (paper, fig:learning_rate); means over trainings."""
    curves = results["curves"]
    looks = dict(zip(curves, zip(SERIES, DASHES, strict=True), strict=True))

    def draw(split: str, metric: str) -> Callable[[Axes], None]:
        lines = {
            looks[agent]: (runs[0]["steps"], np.mean([run[split][metric] for run in runs], axis=0))
            for agent, runs in curves.items()
        }
        return lambda axes: _lines(axes, lines, "Steps")

    panels = [
        Panel(f"{label}, {words} vignettes", draw(split, metric))
        for split, words in (("train", "training"), ("test", "test"))
        for metric, label in _CURVES.items()
    ]
    keys = tuple(Key(results["agents"][agent]["label"], *looks[agent]) for agent in curves)
    caption = "Learning on training vignettes and on test vignettes, means over trainings."
    return Drawing("learning_curves", caption, caption, tuple(panels), keys)


def _calibration_figure(calibration: Mapping[str, Any]) -> Drawing:
    """Returns both ensembles by pieces of evidence (paper, fig:annex_calibrated_vs_non_calibrated)."""
    points = calibration["by_pieces"]
    pieces = [point["pieces"] for point in points]
    looks = dict(zip(_MODELS, zip(SERIES, DASHES, strict=False), strict=False))

    def draw(metric: str) -> Callable[[Axes], None]:
        lines = {looks[model]: (pieces, [point[model][metric] for point in points]) for model in _MODELS}
        return lambda axes: _lines(axes, lines, "Pieces of evidence")

    def rows(axes: Axes) -> None:
        axes.bar(pieces, [point["rows"] for point in points], color=colour("muted"))
        axes.set_xlabel("Pieces of evidence")

    differences = [f"{name} {_estimate(each, '+')}" for name, each in calibration["small_sets"].items()]
    caption = (
        f"The ensembles of D_pow by pieces of evidence, on {calibration['rows']:,} rows of its test part. Calibrated "
        f"minus uncalibrated on one to three pieces: {', '.join(differences) or 'not measured'}."
    )
    panels = (*(Panel(_CURVES[metric], draw(metric)) for metric in _QUALITY), Panel("Rows", rows))
    return Drawing(
        "calibration", caption, caption, panels, tuple(Key(model.capitalize(), *looks[model]) for model in _MODELS)
    )


def _lines(axes: Axes, lines: Mapping[tuple[str, str], tuple[Sequence[float], Any]], label: str) -> None:
    for (tone, dash), (x, y) in lines.items():
        axes.plot(x, y, color=colour(tone), linestyle=dash)
    axes.set_xlabel(label)

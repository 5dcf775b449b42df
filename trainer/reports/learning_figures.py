"""Figures of learning: curves over training, questions on known and new vignettes, and cross-validation."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from schemas.triage import MAX_QUESTIONS
from trainer.evaluation.estimates import Estimate
from trainer.reports.drawing import (
    DASHES,
    SERIES,
    Drawing,
    Key,
    Panel,
    colour,
    label_rows,
    row_panel_height,
    share_limits,
)
from trainer.reports.numbers import (
    QUESTIONS,
    TARGETS,
    Measure,
    Table,
    agents_of,
    estimate_at,
    number_at,
    several,
    shown,
    value_at,
    with_interval,
)

NEWEST = 0.3
"""Share of the newest evaluation in an exponential mean; the paper gives none."""
SPAN = 0.4
"""Share of the evaluations that the smoothing weighs around each of them; the paper gives none."""
_SPLITS = {"train": "training vignettes", "test": "test vignettes"}


def mean_curve(runs: Sequence[Any], split: str, metric: str) -> tuple[list[float], list[float]]:
    """Returns steps and means over the runs, at the steps where every run has a value.

    Args:
        runs: curves of one agent, one a seed; runs without the split are left out.
        split: "train" or "test".
        metric: such as "safety".
    """
    values: dict[float, list[float]] = {}
    curves = [curve for run in runs if (curve := _curve(run, split, metric))]
    for curve in curves:
        for step, value in curve:
            values.setdefault(step, []).append(value)
    steps = sorted(step for step, numbers in values.items() if len(numbers) == len(curves))
    return steps, [sum(values[step]) / len(curves) for step in steps]


def exponential_mean(values: Sequence[float]) -> list[float]:
    """Returns the exponential moving mean of a curve, `NEWEST` of it the newest value."""
    means: list[float] = []
    for value in values:
        means.append(value if not means else means[-1] + NEWEST * (value - means[-1]))
    return means


def smoothed(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Returns the places and heights of a curve by locally weighted regression (Cleveland, 1979), without robustness.

    At each place, a line is fitted to the nearest `SPAN` of the points, the near ones with more weight (tricube).

    Args:
        points: places and heights, in any order; several may share a place.
    """
    if not points:
        return [], []
    x, y = np.array(points, float).T
    nearest = max(2, math.ceil(SPAN * len(x)))
    heights = []
    for place in np.unique(x):
        distance = np.abs(x - place)
        # Of points that share their places, the farthest counted ones would have no weight.
        width = max(np.sort(distance)[min(nearest, len(x)) - 1], np.min(distance[distance > 0], initial=np.inf))
        weight = (1 - np.minimum(distance / width, 1) ** 3) ** 3 if np.isfinite(width) else np.ones(len(x))
        centre, middle = np.average(x, weights=weight), np.average(y, weights=weight)
        spread = np.average((x - centre) ** 2, weights=weight)
        slope = np.average((x - centre) * (y - middle), weights=weight) / spread if spread else 0.0
        heights.append(float(middle + slope * (place - centre)))
    return np.unique(x).tolist(), heights


def learning_figure(results: Mapping[str, Any]) -> Drawing | None:
    """Returns the three target metrics over training, on both splits (paper, figure "RL learning curves")."""
    curves = {name: runs for name, runs in (results.get("curves") or {}).items() if runs}
    panels = tuple(
        Panel(f"{measure.label}, {where}", _curves(curves, split, measure))
        for split, where in _SPLITS.items()
        for measure in TARGETS
        if any(mean_curve(runs, split, measure.key)[0] for runs in curves.values())
    )
    if not panels:
        return None
    seeds = max(len(runs) for runs in curves.values())
    return Drawing(
        "learning_curves",
        "Learning on training vignettes and on new ones, smoothed as in the paper. Light: the exponential mean of one "
        f"of up to {several(seeds, 'seed')} (the newest evaluation counts {NEWEST:.0%}); dark: locally weighted "
        f"regression over the evaluations of all seeds (each line over {SPAN:.0%} of them). An agent whose curve still "
        "rises at the right edge has not finished learning. A gap "
        "between training and test vignettes shows what does not generalise to new cases.",
        "; ".join(_last(results, name, runs) for name, runs in curves.items()) + ".",
        panels,
        tuple(Key(_label(results, name), *_look(curves, name)) for name in curves),
    )


def questions_figure(results: Mapping[str, Any]) -> Drawing | None:
    """Returns questions asked on training beside those on test vignettes, for each learning agent."""
    rows = []
    for agent in agents_of(results).values():
        train, test = number_at(agent, "train", "questions"), number_at(agent, "metrics", "questions", "mean")
        if value_at(agent, "learns") and train is not None and test is not None:
            rows.append((str(value_at(agent, "label")), train, test))
    if not rows:
        return None
    numbers = Table(
        "Questions asked, mean for each vignette",
        ("Agent", "Training vignettes", "Test vignettes", "Difference"),
        tuple((label, shown(QUESTIONS, a), shown(QUESTIONS, b), f"{b - a:+.2f}") for label, a, b in rows),
    )
    return Drawing(
        "questions",
        "Questions asked before deciding on training vignettes (hollow) and on new ones (filled). For an agent that "
        "adapts to new cases, the filled dot is to the right of the hollow one.",
        "; ".join(f"{label}: {shown(QUESTIONS, a)} in training, {shown(QUESTIONS, b)} in test" for label, a, b in rows)
        + ".",
        (Panel("Questions asked (mean)", _dumbbells(rows), row_panel_height(len(rows))),),
        (Key("training vignettes", "blue", marker="D"), Key("test vignettes", "blue", marker="o")),
        numbers,
    )


def k_fold_figure(results: Mapping[str, Any]) -> Drawing | None:
    """Returns how the target metrics spread over the folds, beside the single split and the paper's mean."""
    runs = value_at(results, "k_fold", "runs") or []
    panels, rows = [], []
    for measure in TARGETS:
        folds = [share for run in runs if (share := number_at(run, measure.key)) is not None]
        if not folds:
            continue
        mean = sum(folds) / len(folds)
        over_all = with_interval(measure, estimate_at(results, "k_fold", "mean", measure.key) or Estimate(mean))
        single = number_at(results, "agents", "dyqn_or", "metrics", measure.key, "mean")
        paper = number_at(results, "k_fold", "paper", measure.key)
        panels.append(Panel(measure.label, _folds(runs, measure, {"mean": mean, "single": single, "paper": paper})))
        low, high, *others = (shown(measure, value) for value in (min(folds), max(folds), single, paper))
        rows.append((measure.label, low, over_all, high, *others))
    if not panels:
        return None
    columns = ("Metric", "Lowest fold", "Mean of folds", "Highest fold", "Single split", "Paper, mean of folds")
    return Drawing(
        "k_fold",
        f"DyQN, OR query, in cross-validation ({several(len(runs), 'fold')} in all). Each dot is a fold, each row "
        "a run. The distance between dots is due to the choice of test vignettes and to chance in training. A single "
        "split (dashed) far from the folds' mean (solid) was lucky or unlucky.",
        "; ".join(
            f"{name}: folds from {low} to {high}, mean {mean}, single split {one}"
            for name, low, mean, high, one, _ in rows
        )
        + ".",
        tuple(panels),
        (
            Key("one fold", "blue", marker="o"),
            Key("mean of the folds", "ink", "-"),
            Key("the single split", "green", "--"),
            Key("the paper's folds", "orange", ":"),
        ),
        Table("Cross-validation", columns, tuple(rows)),
    )


def _curve(run: Any, split: str, metric: str) -> list[tuple[float, float]]:
    pairs = zip(value_at(run, "steps") or [], value_at(run, split, metric) or [], strict=False)
    return [(step, value) for step, value in pairs if value is not None]


def _label(results: Mapping[str, Any], name: str) -> str:
    return str(value_at(results, "agents", name, "label") or name)


def _look(curves: Mapping[str, Any], name: str) -> tuple[str, str]:
    place = list(curves).index(name)
    return SERIES[place % len(SERIES)], list(DASHES)[place % len(DASHES)]


def _last(results: Mapping[str, Any], name: str, runs: Sequence[Any]) -> str:
    ends = []
    for measure in TARGETS:
        steps, means = mean_curve(runs, "test", measure.key)
        if steps:
            ends.append(f"{measure.label.lower()} from {shown(measure, means[0])} to {shown(measure, means[-1])}")
    return f"{_label(results, name)}, test: {', '.join(ends)}"


def _curves(curves: Mapping[str, Any], split: str, measure: Measure) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        for name, runs in curves.items():
            tone, line = _look(curves, name)
            for run in runs:
                if pairs := _curve(run, split, measure.key):
                    steps, values = zip(*pairs, strict=True)
                    axes.plot(steps, exponential_mean(values), color=colour(tone), linewidth=1, alpha=0.3)
            points = [pair for run in runs for pair in _curve(run, split, measure.key)]
            axes.plot(*smoothed(points), color=colour(tone), linestyle=line)
        axes.set_xlabel("training steps")
        axes.xaxis.set_major_formatter(FuncFormatter(thousands))
        _scale(axes, measure, curves)

    return draw


def _scale(axes: Axes, measure: Measure, curves: Mapping[str, Any]) -> None:
    """Gives both panels of a metric the same scale, so that training and test compare."""
    if not measure.share:
        axes.set_ylim(0, MAX_QUESTIONS + 1)
        return
    points = (
        pair
        for runs in curves.values()
        for run in runs
        for split in _SPLITS
        for pair in _curve(run, split, measure.key)
    )
    axes.set_ylim(*share_limits([value for _, value in points]))
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))


def thousands(step: float, _: int) -> str:
    """Returns a step as the label of a tick."""
    return f"{step / 1000:g}k" if step >= 1000 else f"{step:g}"


def _dumbbells(rows: list[tuple[str, float, float]]) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        for place, (_, train, test) in enumerate(rows):
            axes.plot([train, test], [place, place], color=colour("blue"), linewidth=2, alpha=0.5)
            axes.plot(test, place, "o", color=colour("blue"), markersize=9)
            axes.plot(train, place, "D", color=colour("blue"), markersize=7, fillstyle="none", markeredgewidth=1.6)
        label_rows(axes, [(label, f"{train:.1f} → {test:.1f}") for label, train, test in rows])
        axes.set_xlim(-0.5, MAX_QUESTIONS + 1)

    return draw


def _folds(runs: Sequence[Any], measure: Measure, marks: Mapping[str, float | None]) -> Callable[[Axes], None]:
    seeds = sorted({str(value_at(run, "seed")) for run in runs})

    def draw(axes: Axes) -> None:
        for run in runs:
            if (share := number_at(run, measure.key)) is not None:
                axes.plot(share, seeds.index(str(value_at(run, "seed"))), "o", color=colour("blue"), alpha=0.6)
        for name, tone, line in (("mean", "ink", "-"), ("single", "green", "--"), ("paper", "orange", ":")):
            if (value := marks[name]) is not None:
                axes.axvline(value, color=colour(tone), linestyle=line, zorder=1)
        axes.set_yticks(range(len(seeds)), [f"seed {seed}" for seed in seeds])
        axes.set_ylim(len(seeds) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        if measure.share:
            axes.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))

    return draw

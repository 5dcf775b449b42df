"""How triage improves with evidence, on rows of D_pow's test part (paper, fig:annex_calibrated_vs_non_calibrated).

Rows of one vignette are not independent: the unit of the bootstrap is the vignette.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trainer.evaluation import metrics
from trainer.evaluation.figures import Estimate
from trainer.evaluation.prefixes import STATES_AT_ONCE
from trainer.study.state_values import TriageValues
from trainer.study.supervised import PowersetRows

SMALL = 3
"""Maximum number of pieces in a small evidence set; the paper does not say what is small."""
_SHOWN = ("appropriateness", "safety", "confidence")


class Judged(NamedTuple):
    """What a model is worth on R rows of D_pow."""

    pieces: np.ndarray  # int [R], of evidence
    groups: np.ndarray  # int [R], equal for parts of one vignette, from 0 on
    values: np.ndarray  # float [R, 3]: appropriateness, safety, and the highest triage value


def judge(triage_values: TriageValues, rows: PowersetRows) -> Judged:
    """Judges the decisions of a model on each row; equal values go to the more urgent decision.

    Args:
        triage_values: gives each decision a value in [0, 1].
        rows: R of them, 1 or more.
    """
    parts = [rows.states[start : start + STATES_AT_ONCE] for start in range(0, rows.states.shape[0], STATES_AT_ONCE)]
    values = np.concatenate([np.asarray(triage_values(part)) for part in parts])
    quality = metrics.triage_quality(values.argmax(axis=1)[np.newaxis], rows.decision_counts)
    judged = np.stack([quality["appropriateness"], quality["safety"], values.max(axis=1)], axis=1)
    return Judged(rows.states.getnnz(axis=1), np.unique(rows.groups, return_inverse=True)[1], judged)


def curve(judged: Judged, seed: int) -> list[dict[str, Any]]:
    """Returns the quality of each number of `pieces`, see `quality_by`."""
    return quality_by(judged, "pieces", judged.pieces, seed)


def quality_by(judged: Judged, name: str, places: np.ndarray, seed: int) -> list[dict[str, Any]]:
    """Returns the mean quality of the rows at each place, with the numbers of states and of vignettes behind it.

    Args:
        judged: R rows.
        name: what a place is.
        places: int `[R]`.
        seed: of the bootstrap over vignettes.
    """
    points = []
    for place in np.unique(places).tolist():
        here = places == place
        _, groups = np.unique(judged.groups[here], return_inverse=True)
        estimates = _figures(groups, _with_count(judged.values[here]), _means, seed)
        means = {metric: each for metric, each in zip(_SHOWN, estimates, strict=True) if each is not None}
        points.append(
            {
                name: place,
                "states": int(here.sum()),
                "vignettes": int(groups.max() + 1),
                **{metric: each.mean for metric, each in means.items()},
                "intervals": {metric: [each.low, each.high] for metric, each in means.items()},
            }
        )
    return points


def calibration_figures(calibrated: Judged, uncalibrated: Judged, seed: int) -> dict[str, Any]:
    """Returns what calibration changes, as estimates.

    Args:
        calibrated: the calibrated model on some rows.
        uncalibrated: the other one on the same rows.
        seed: of the bootstrap over vignettes.

    Returns:
        `small_sets`: by metric, calibrated minus uncalibrated on rows with 1 to `SMALL` pieces (None without any);
        `rise`, the slope of the calibrated model's appropriateness over the number of pieces; and `scatter`, how far
        its means by number of pieces lie from that line (root mean square over rows), less those of the other model.
    """
    small = (calibrated.pieces >= 1) & (calibrated.pieces <= SMALL)
    difference = (calibrated.values - uncalibrated.values)[small, :2]
    small_sets = None
    if small.any():
        _, groups = np.unique(calibrated.groups[small], return_inverse=True)
        small_sets = dict(zip(_SHOWN, _figures(groups, _with_count(difference), _means, seed), strict=False))
    x: np.ndarray = calibrated.pieces.astype(np.float64)
    y = calibrated.values[:, 0]
    [rise] = _figures(calibrated.groups, np.stack([np.ones_like(x), x, y, x * x, x * y], axis=1), _slope, seed)
    sizes, place = np.unique(calibrated.pieces, return_inverse=True)
    here = np.eye(len(sizes))[place]
    parts = [here, *(here * each.values[:, :1] for each in (calibrated, uncalibrated))]
    [scatter] = _figures(
        calibrated.groups, np.concatenate(parts, axis=1), lambda sums: _scatter_difference(sums, sizes), seed
    )
    return {"small_sets": small_sets, "rise": rise, "scatter": scatter}


def _with_count(values: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones([len(values), 1]), values], axis=1)


def _means(sums: np.ndarray) -> np.ndarray:
    return sums[:, 1:] / sums[:, :1]


def _slope(sums: np.ndarray) -> np.ndarray:
    """Returns the slope of the regression line, `[R, 1]`, from the sums of 1, x, y, x^2 and x y."""
    count, x, y, xx, xy = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):  # rows that all have the same number of pieces
        return ((count * xy - x * y) / (count * xx - x * x))[:, np.newaxis]


def _scatter_difference(sums: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the first model's scatter around its line less the second's, `[R, 1]`.

    Args:
        sums: `[R, 3 P]`, for each of P sizes the number of rows, and the sum of each model's values.
        sizes: `[P]`, numbers of pieces.
    """
    rows, *totals = np.split(sums, 3, axis=1)
    count = rows.sum(axis=1, keepdims=True)
    x = sizes - (rows * sizes).sum(axis=1, keepdims=True) / count
    scatters = []
    for total in totals:
        with np.errstate(invalid="ignore", divide="ignore"):  # sizes without rows, and a single size
            y = np.where(rows > 0, total / rows, 0.0) - total.sum(axis=1, keepdims=True) / count
            slope = (rows * x * y).sum(axis=1, keepdims=True) / (rows * x * x).sum(axis=1, keepdims=True)
        scatters.append(np.sqrt((rows * (y - slope * x) ** 2).sum(axis=1, keepdims=True) / count))
    return scatters[0] - scatters[1]


def _figures(
    groups: np.ndarray, parts: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray], seed: int
) -> list[Estimate | None]:
    """Returns the estimates of a statistic of sums, whose vignettes are resampled; None where it is not defined."""
    vignettes = int(groups.max() + 1)
    sums: np.ndarray = np.zeros([vignettes, parts.shape[1]])
    np.add.at(sums, groups, parts)
    figures = statistic(sums.sum(axis=0)[np.newaxis]).shape[1]
    return metrics.estimates_of_sums(sums, statistic, [vignettes] * figures, seed)

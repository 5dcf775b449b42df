"""What a study found, beside the paper's numbers: its table of agents, learning curves, calibration and folds."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schemas.triage import Action
from trainer.data.arrays import fold_rows
from trainer.data.tfrecord import DataDirectory, is_simulated
from trainer.evaluation import metrics
from trainer.study import agents
from trainer.study.agents import CURVES, QUALITY, Evaluation, Splits
from trainer.study.study import CALIBRATED, LEARNING, UNCALIBRATED, Study, Training
from triage_runtime.storage.whole_file import read_json

SMALL = 3  # pieces in a small evidence set, at most; the paper does not say what is small


AGENTS = {
    "dyqn_or": ("DyQN, OR query", 0.85, 0.93, 13.34),
    "dyqn_and": ("DyQN, AND query", 0.76, 0.86, 1.40),
    "partially_observed_or": ("Partially observed, OR query", 0.79, 0.88, 23.0),
    "partially_observed_and": ("Partially observed, AND query", 0.79, 0.86, 10.35),
    "random": ("Random", 0.39, 0.74, 0.25),
    "always_green": ("Always Green", 0.71, 0.75, 0.0),
    "clinicians": ("Clinicians", 0.84, 0.93, None),
    "fully_observed": ("Fully observed", 0.86, 0.94, None),
}
"""The rows of the paper's table (tab:performance_test), with its appropriateness, safety and questions, if any."""
PAPER_FOLDS = {"appropriateness": (0.81, 0.68, 0.92), "safety": (0.90, 0.80, 0.97), "questions": (13.14, None, None)}
"""Mean, lowest and highest of the paper's cross-validation; it gives no range of the questions."""


def collect(study: Study) -> dict[str, Any]:
    """Returns the results of a study whose trainings are done, for JSON."""
    data = DataDirectory.open(study.data)
    trained = {training: read_json(study.path(training)) for training in study.trainings()}
    return {
        "settings": dataclasses.asdict(study.settings) | {"evaluations_averaged": study.settings.converged},
        "data": {
            "path": str(data.path),
            "data_fingerprint": data.data_fingerprint,
            "simulated": is_simulated(data.stats),
            "vignettes": {split: part["vignettes"] for split, part in data.stats["splits"].items()},
            "evidence_codes": len(data.vocabulary),
        },
        **study_figures(study, agents.read_splits(data), trained),
    }


def study_figures(study: Study, splits: Splits, trained: Mapping[Training, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the paper's table, learning curves, calibration and folds, from the content of each training's file."""
    first, limit = study.settings.config.loop.seed, study.settings.config.environment.max_questions
    common: dict[str, list[Any]] = {}
    for training, file in trained.items():
        if training.fold is None:
            common.setdefault(training.agent, []).append(file)
    calibrated, uncalibrated = (common.pop(agent)[0] for agent in (CALIBRATED, UNCALIBRATED))
    found = {
        **common,
        "random": [agents.random(splits, first, limit)],
        "always_green": [agents.always(Action.GREEN, splits)],
        "clinicians": [agents.clinicians(splits)],
    }
    return {
        "agents": _table(found, first),
        "curves": {
            agent: [{"seed": first + number, **file["curve"]} for number, file in enumerate(common[agent])]
            for agent in LEARNING
        },
        "calibration": _calibration(calibrated, uncalibrated, first),
        "folds": _folds(study, {training: file for training, file in trained.items() if training.fold is not None}),
    }


def _table(found: Mapping[str, Sequence[Evaluation]], seed: int) -> dict[str, Any]:
    """Returns the rows of the paper's table.

    `test` has the mean over seeds and last evaluations, its interval over vignettes, and the standard deviation over
    seeds; `train` the same mean on training vignettes; `dyqn_or_minus` the paired differences of DyQN-OR to the agent,
    on the test vignettes with enough decisions, both scored against all clinicians but one.
    """
    ours, rows = agents.mean_of(found["dyqn_or"])["leave_one_out"], {}
    for agent, (label, *paper) in AGENTS.items():
        mean, seeds = agents.mean_of(found[agent]), found[agent]
        if not len(mean["test"]["safety"]):  # no vignette has enough decisions for the clinicians' row
            continue
        test = {name: metrics.estimate(values, seed)._asdict() for name, values in mean["test"].items()}
        for name, figure in test.items():
            spread = np.std([np.mean(each["test"][name]) for each in seeds], ddof=1) if len(seeds) > 1 else None
            figure["sd_over_seeds"] = spread
        differences = {name: ours[name] - mean["leave_one_out"][name] for name in QUALITY}
        compared = agent != "dyqn_or" and len(ours["safety"])
        rows[agent] = {
            "label": label,
            "paper": dict(zip(CURVES, paper, strict=True)),
            "seeds": len(seeds),
            "test": test,
            "train": {name: float(values.mean()) for name, values in mean["train"].items() if len(values)},
            "dyqn_or_minus": metrics.summary(differences, seed, paired=True) if compared else None,
        }
    return rows


def _calibration(calibrated: Mapping[str, Any], uncalibrated: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns both ensembles' quality by number of pieces on rows of D_pow's test part (paper, appendix).

    `small_sets` is the difference, calibrated minus uncalibrated, on rows of 1 to `SMALL` pieces: the mean over
    vignettes, as the rows of one are not independent.
    """
    models = {CALIBRATED: calibrated, UNCALIBRATED: uncalibrated}
    quality = {name: np.array([file[name] for file in models.values()]) for name in QUALITY}  # [2, rows]
    pieces, vignettes = np.array(calibrated["pieces"]), np.array(calibrated["vignettes"])
    points = []
    for count in np.unique(pieces).tolist():
        means = {name: values[:, pieces == count].mean(axis=1) for name, values in quality.items()}
        of_models = {
            model: {name: float(each[place]) for name, each in means.items()} for place, model in enumerate(models)
        }
        points.append({"pieces": count, "rows": int((pieces == count).sum()), **of_models})
    small = (pieces >= 1) & (pieces <= SMALL)
    _, groups, sizes = np.unique(vignettes[small], return_inverse=True, return_counts=True)
    differences = {
        name: metrics.estimate(np.bincount(groups, (values[0] - values[1])[small]) / sizes, seed)
        for name, values in quality.items()
        if small.any()
    }
    return {"rows": len(pieces), "by_pieces": points, "small_sets": differences}


def _folds(study: Study, trained: Mapping[Training, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Returns each fold's means, and the mean over all vignettes, each tested once in every repetition."""
    if not trained:
        return None
    folds, repetitions = study.settings.folds, study.settings.fold_seeds
    total = sum(len(file["test"]["safety"]) for file in trained.values()) // repetitions
    values = {name: np.zeros(total) for name in CURVES}
    runs = []
    for training, file in trained.items():
        _, rows = fold_rows(total, folds, training.fold or 0, training.seed)
        for name in CURVES:
            values[name][rows] += np.array(file["test"][name]) / repetitions
        means = {name: float(np.mean(file["test"][name])) for name in CURVES}
        runs.append({"seed": training.seed, "fold": training.fold, **means})
    return {"runs": runs, "mean": metrics.summary(values, study.settings.config.loop.seed), "paper": PAPER_FOLDS}

"""What a study found, beside the paper's numbers: its table of agents, learning curves, calibration and folds."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas.triage import Action
from trainer.data.arrays import fold_rows
from trainer.data.tfrecord import DataDirectory, is_simulated
from trainer.evaluation import metrics
from trainer.study import agents
from trainer.study.agents import CURVES, Evaluation, Splits
from trainer.study.study import CALIBRATED, FULLY_OBSERVED, LEARNING, UNCALIBRATED, Study, Training
from triage_runtime.storage.whole_file import read_json

SMALL = 3
"""Maximum number of pieces in a small evidence set; the paper does not say what is small."""
QUALITY = CURVES[:2]


class PaperRow(NamedTuple):
    """A row of the paper's table (tab:performance_test); None where it has no number."""

    label: str
    appropriateness: float
    safety: float
    questions: float | None = None


AGENTS = {
    "dyqn_or": PaperRow("DyQN, OR query", 0.85, 0.93, 13.34),
    "dyqn_and": PaperRow("DyQN, AND query", 0.76, 0.86, 1.40),
    "partially_observed_or": PaperRow("Partially observed, OR query", 0.79, 0.88, 23.0),
    "partially_observed_and": PaperRow("Partially observed, AND query", 0.79, 0.86, 10.35),
    "random": PaperRow("Random", 0.39, 0.74, 0.25),
    "always_green": PaperRow("Always Green", 0.71, 0.75, 0.0),
    "clinicians": PaperRow("Clinicians", 0.84, 0.93),
    "fully_observed": PaperRow("Fully observed", 0.86, 0.94),
}
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
        **figures(study, agents.read_splits(data), trained),
    }


def figures(study: Study, splits: Splits, trained: Mapping[Training, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the paper's table, learning curves, calibration and folds, from the content of each training's file."""
    first, limit = study.settings.config.loop.seed, study.settings.config.environment.max_questions
    of_agent = {
        agent: {training.seed: file for training, file in trained.items()
                if training.agent == agent and training.fold is None}
        for agent in (*LEARNING, FULLY_OBSERVED)
    }  # fmt: skip
    evaluations: dict[str, list[Any]] = {
        **{agent: list(files.values()) for agent, files in of_agent.items()},
        "random": [agents.random(splits, first, limit)],
        "always_green": [agents.always(Action.GREEN, splits)],
        "clinicians": [agents.clinicians(splits)],
    }
    return {
        "agents": _table(evaluations, first),
        "curves": {
            agent: [{"seed": seed, **file["curve"]} for seed, file in of_agent[agent].items()] for agent in LEARNING
        },
        "calibration": _calibration(
            trained[Training(CALIBRATED, first)], trained[Training(UNCALIBRATED, first)], first
        ),
        "folds": _folds(study, {training: file for training, file in trained.items() if training.fold is not None}),
    }


def _table(evaluations: Mapping[str, Sequence[Evaluation]], seed: int) -> dict[str, Any]:
    """Returns the rows of the paper's table.

    `test` has the mean over seeds and last evaluations, its interval over vignettes, and the standard deviation over
    seeds; `train` the same mean on training vignettes; `dyqn_or_minus` the paired differences of DyQN-OR to the agent,
    on the test vignettes with enough decisions, both scored against all clinicians but one.
    """
    means = {agent: agents.mean_of(each) for agent, each in evaluations.items()}
    ours, rows = means["dyqn_or"]["leave_one_out"], {}
    for agent, paper in AGENTS.items():
        mean, seeds = means[agent], evaluations[agent]
        if not len(mean["test"]["safety"]):  # no vignette has enough decisions for the clinicians' row
            continue
        differences = {name: ours[name] - mean["leave_one_out"][name] for name in QUALITY}
        rows[agent] = {
            "label": paper.label,
            "paper": {name: value for name, value in paper._asdict().items() if name in CURVES},
            "seeds": len(seeds),
            "test": {
                name: {
                    **metrics.estimate(values, seed)._asdict(),
                    "sd_over_seeds": _spread([np.mean(each["test"][name]) for each in seeds]),
                }
                for name, values in mean["test"].items()
            },
            "train": {name: float(values.mean()) for name, values in mean["train"].items() if len(values)},
            "dyqn_or_minus": metrics.summary(differences, seed, paired=True)
            if agent != "dyqn_or" and len(ours["safety"])
            else None,
        }
    return rows


def _spread(values: Sequence[np.floating]) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def _calibration(calibrated: Mapping[str, Any], uncalibrated: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns both ensembles' quality by number of pieces on rows of D_pow's test part (paper, appendix).

    `small_sets` is the difference, calibrated minus uncalibrated, on rows of 1 to `SMALL` pieces: the mean over
    vignettes, as the rows of one are not independent.
    """
    pieces, vignettes = np.array(calibrated["pieces"]), np.array(calibrated["vignettes"])
    models = {CALIBRATED: calibrated, UNCALIBRATED: uncalibrated}
    points = []
    for count in np.unique(pieces).tolist():
        here = pieces == count
        means = {
            model: {name: float(np.mean(np.array(file[name])[here])) for name in QUALITY}
            for model, file in models.items()
        }
        points.append({"pieces": count, "rows": int(here.sum()), **means})
    small = (pieces >= 1) & (pieces <= SMALL)
    _, groups = np.unique(vignettes[small], return_inverse=True)
    differences = {}
    for name in QUALITY if small.any() else ():
        difference = (np.array(calibrated[name]) - np.array(uncalibrated[name]))[small]
        differences[name] = metrics.estimate(np.bincount(groups, difference) / np.bincount(groups), seed)
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

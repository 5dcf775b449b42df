"""The trainings of the paper's study, several at a time, and the file of each, from which the study resumes.

The directory of a study has `study.json`, the data and the settings that determine its agents, and in `agents/` a JSON
file for each trained agent. What has its file is not trained again.
"""

import dataclasses
import json
import pathlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import joblib
import numpy as np

from schemas.errors import InputError
from trainer.config import PAPER_QUERIES, TrainConfig
from trainer.data.state import sparse_states
from trainer.data.tfrecord import DataDirectory
from trainer.dyqn.loop import TrainingDivergedError
from trainer.evaluation import metrics
from trainer.study import agents, worker
from trainer.study.ensemble import draw_states, train_ensemble
from trainer.study.powerset import Powerset, powerset
from triage_runtime.command_line.json_output import plain
from triage_runtime.command_line.options import check_bounds
from triage_runtime.storage import whole_file

FORMAT = 6  # raised when the same settings give another file, so that an earlier one is not read
JUDGED_ROWS = 10_000  # of D_pow's test part, at most, that its two ensembles are compared on
FULLY_OBSERVED, CALIBRATED, UNCALIBRATED = "fully_observed", "calibrated", "uncalibrated"
SUPERVISED = (FULLY_OBSERVED, CALIBRATED, UNCALIBRATED)
"""The ensemble of whole vignettes, and those of D_pow: the first of them triages for the partially observed agents."""
LEARNING = tuple(f"{kind}_{query}" for kind in ("dyqn", "partially_observed") for query in PAPER_QUERIES)
"""The agents that learn when to stop."""


@dataclasses.dataclass(frozen=True)
class StudySettings:
    """The size of the study."""

    seeds: int  # trainings of each learning agent
    folds: int  # 0 means no cross-validation
    fold_seeds: int  # repetitions of the cross-validation
    powerset_rows: int  # rows of D_pow, at most, to train an ensemble on
    config: TrainConfig  # of the learning agents; its seed is the first one

    def __post_init__(self) -> None:
        for name, least in (("seeds", 1), ("folds", 2 if self.folds else 0), ("fold_seeds", 1), ("powerset_rows", 100)):
            check_bounds(name, getattr(self, name), least)
        check_bounds("evaluation_interval", self.config.loop.evaluation_interval, 1)

    @property
    def converged(self) -> int:
        """Number of evaluations that count as the trained agent's: the last quarter, at most the paper's ten."""
        evaluations = -(-self.config.loop.steps // self.config.loop.evaluation_interval)
        return max(1, min(10, evaluations // 4))


@dataclasses.dataclass(frozen=True)
class Training:
    """A training of an agent: of `SUPERVISED` or `LEARNING`."""

    agent: str
    seed: int
    fold: int | None = None  # of the cross-validation of this seed; None for the common split

    @property
    def name(self) -> str:
        """A name for people and files."""
        return f"{self.agent}-seed-{self.seed}" + ("" if self.fold is None else f"-fold-{self.fold}")


@dataclasses.dataclass(frozen=True)
class Study:
    """A study of a data directory, whose agents are kept in the directory `out`."""

    data: pathlib.Path
    settings: StudySettings
    out: pathlib.Path

    def trainings(self) -> list[Training]:
        """Returns all trainings, those that others need first."""
        settings = self.settings
        first = settings.config.loop.seed
        return [
            *(Training(agent, first) for agent in SUPERVISED),
            *(Training(agent, first + number) for agent in LEARNING for number in range(settings.seeds)),
            *(
                Training("dyqn_or", first + number, fold)
                for number in range(settings.fold_seeds)
                for fold in range(settings.folds)
            ),
        ]

    def claim(self) -> list[Training]:
        """Makes the directory; returns the trainings that have no file in it.

        Raises:
            InputError: the data have too few vignettes, or the directory holds a study of other data or with other
                settings, or cannot be written.
        """
        data, path = DataDirectory.open(self.data), self.out / "study.json"
        counts = {split: part["vignettes"] for split, part in data.stats["splits"].items()}
        for split, count in counts.items():
            if count < 2:
                raise InputError(
                    f"--data {self.data}: {count} vignettes in the {split} split: the study needs 2 or more in each, "
                    "see --test-fraction of triage prepare and triage simulate"
                )
        check_bounds("folds", self.settings.folds, 0, sum(counts.values()))
        settings = {"powerset_rows": self.settings.powerset_rows, "folds": self.settings.folds}
        ours = plain(
            {
                "format": FORMAT,
                "data": [data.data_fingerprint, data.vocabulary.fingerprint],
                "settings": {**settings, **self.settings.config.to_dict()},
            }
        )
        there = whole_file.read_json(path) if path.exists() else ours
        for name, value in ours.items():
            if there.get(name) != value:
                raise InputError(
                    f"--out {self.out}: a study with other {name}: choose another directory, or its {name}"
                )
        try:
            (self.out / "agents").mkdir(parents=True, exist_ok=True)
            _write(path, ours)
        except OSError as error:
            raise InputError(f"--out {self.out}: cannot write: {error.strerror or error}") from error
        return [training for training in self.trainings() if not self.path(training).exists()]

    def run(self, waiting: list[Training]) -> Iterator[None]:
        """Trains agents, one on each core, and yields after each.

        Raises:
            InputError: an agent cannot be trained, or its file not be written. Those that are done keep theirs.
        """
        for training in waiting:
            if training.agent in SUPERVISED:
                self.train(training)
                yield
        jobs = [joblib.delayed(self.train)(training) for training in waiting if training.agent not in SUPERVISED]
        parallel = joblib.Parallel(n_jobs=-1, return_as="generator_unordered", initializer=worker.prepare)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A worker stopped")  # joblib renews a process that has grown
            yield from parallel(jobs)

    def train(self, training: Training) -> None:
        """Trains an agent, an ensemble with a process on each core, and writes its file."""
        try:
            train = self._supervised if training.agent in SUPERVISED else self._learned
            _write(self.path(training), train(training))
        except TrainingDivergedError as error:
            raise InputError(f"{training.name}: {error}: choose a lower --learning-rate") from error
        except OSError as error:
            raise InputError(f"--out {self.out}: {error}") from error

    def path(self, training: Training, ending: str = "json") -> pathlib.Path:
        """Returns the file of a trained agent."""
        return self.out / "agents" / f"{training.name}.{ending}"

    def _learned(self, training: Training) -> dict[str, Any]:
        settings, data = self.settings, DataDirectory.open(self.data)
        config = dataclasses.replace(
            settings.config,
            target=dataclasses.replace(settings.config.target, ask_query=training.agent.rpartition("_")[2]),
            loop=dataclasses.replace(settings.config.loop, seed=training.seed),
        )
        splits = agents.read_splits(data, training.fold, settings.folds, training.seed)
        if training.agent.startswith("dyqn"):
            return agents.dyqn(splits, config, settings.converged)
        classifier = joblib.load(self.path(Training(CALIBRATED, settings.config.loop.seed), "joblib"))
        return agents.partially_observed(splits, classifier.triage_values, config, settings.converged)

    def _supervised(self, training: Training) -> Mapping[str, Any]:
        splits = agents.read_splits(DataDirectory.open(self.data))
        train, codes, seed = splits.train, splits.evidence_count, training.seed
        if training.agent == FULLY_OBSERVED:
            vignettes = np.arange(len(train.decision_counts))
            ensemble = train_ensemble(sparse_states(train, codes), train.decision_counts, vignettes, True, seed)
            return agents.fully_observed(ensemble.triage_values, splits)
        learned = _drawn(powerset(train, codes, seed), self.settings.powerset_rows, seed)
        ensemble = train_ensemble(*learned, training.agent == CALIBRATED, seed)
        if training.agent == CALIBRATED:
            with whole_file.path_replacing(self.path(training, "joblib")) as unfinished:
                joblib.dump(ensemble, unfinished, compress=True)
        judged = _drawn(powerset(splits.test, codes, seed), JUDGED_ROWS, seed)
        decisions = ensemble.triage_values(judged.states).argmax(axis=1)[np.newaxis]
        quality = metrics.triage_quality(decisions, judged.decision_counts)
        pieces = judged.states.getnnz(axis=1)
        return {"pieces": pieces, "vignettes": judged.vignettes, **{name: quality[name] for name in agents.QUALITY}}


def _write(path: pathlib.Path, values: Mapping[str, Any]) -> None:
    with whole_file.replacing(path) as file:
        json.dump(plain(values), file, allow_nan=False)


def _drawn(rows: Powerset, limit: int, seed: int) -> Powerset:
    places = draw_states(rows.vignettes, limit, seed)
    return Powerset(rows.states[places], rows.decision_counts[places], rows.vignettes[places])

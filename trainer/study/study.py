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
from trainer.study.ensemble import EnsembleConfig, draw_states, train_ensemble
from trainer.study.powerset import Powerset, powerset
from triage_runtime.command_line.json_output import plain
from triage_runtime.storage import whole_file

FORMAT = 5
"""Raised when the same settings give another file, so that an earlier one is not read."""
JUDGED_ROWS = 10_000
"""Maximum number of rows of D_pow's test part that the two ensembles are compared on."""
FULLY_OBSERVED, CALIBRATED, UNCALIBRATED = "fully_observed", "calibrated", "uncalibrated"
SUPERVISED = (FULLY_OBSERVED, CALIBRATED, UNCALIBRATED)
"""The ensemble of whole vignettes, and those of D_pow: the first of them triages for the partially observed agents."""
LEARNING = tuple(f"{kind}_{query}" for kind in ("dyqn", "partially_observed") for query in PAPER_QUERIES)
"""The agents that learn when to stop."""

CONVERGED = 10
"""Maximum number of evaluations at the end of training to average, as in the paper's table (tab:performance_test)."""
CONVERGED_PART = 4
"""With few evaluations, only the last 1 / CONVERGED_PART of them are averaged."""


@dataclasses.dataclass(frozen=True)
class StudySettings:
    """The size of the study."""

    seeds: int  # trainings of each learning agent
    folds: int  # 0 means no cross-validation
    fold_seeds: int  # repetitions of the cross-validation
    powerset_rows: int  # rows of D_pow, at most, to train an ensemble on
    config: TrainConfig  # of the learning agents; its seed is the first one

    def __post_init__(self) -> None:
        for name, least in (("seeds", 1), ("folds", 0), ("fold_seeds", 1), ("powerset_rows", 100)):
            if getattr(self, name) < least:
                raise InputError(f"--{name.replace('_', '-')} {getattr(self, name)}: expected {least} or more")
        if self.folds == 1:
            raise InputError("--folds 1: expected 2 or more, or 0 for no cross-validation")
        if not self.config.loop.evaluation_interval:
            raise InputError("--evaluation-interval 0: the study needs evaluations: expected 1 or more")

    @property
    def converged(self) -> int:
        """Number of evaluations at the end of training that count as those of the trained agent."""
        loop = self.config.loop
        evaluations = -(-loop.steps // loop.evaluation_interval)
        return max(1, min(CONVERGED, evaluations // CONVERGED_PART))


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
        self._require_vignettes(data)
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

    def _require_vignettes(self, data: DataDirectory) -> None:
        counts = {split: data.stats["splits"][split]["vignettes"] for split in ("train", "test")}
        for split, count in counts.items():
            if count < 2:
                raise InputError(
                    f"--data {self.data}: {count} vignettes in the {split} split: the study needs 2 or more in each, "
                    "see --test-fraction of triage prepare and triage simulate"
                )
        if self.settings.folds > sum(counts.values()):
            raise InputError(f"--folds {self.settings.folds}: more than the {sum(counts.values())} vignettes")

    def run(self, waiting: list[Training], processes: int) -> Iterator[None]:
        """Trains agents, so many at a time, and yields after each.

        Raises:
            InputError: an agent cannot be trained, or its file not be written. Those that are done keep theirs.
        """
        for training in waiting:
            if training.agent in SUPERVISED:
                self.train(training, processes)
                yield
        jobs = [joblib.delayed(self.train)(training) for training in waiting if training.agent not in SUPERVISED]
        threads = max(1, joblib.cpu_count() // processes)
        parallel = joblib.Parallel(
            processes, return_as="generator_unordered", initializer=worker.prepare, initargs=(threads,)
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A worker stopped")  # joblib renews a process that has grown
            yield from parallel(jobs)

    def train(self, training: Training, jobs: int = 1) -> None:
        """Trains an agent, an ensemble with a number of processes, and writes its file."""
        try:
            train = self._supervised if training.agent in SUPERVISED else self._learned
            _write(self.path(training), train(training, jobs))
        except TrainingDivergedError as error:
            raise InputError(f"{training.name}: {error}: choose a lower --learning-rate") from error
        except OSError as error:
            raise InputError(f"--out {self.out}: {error}") from error

    def path(self, training: Training, ending: str = "json") -> pathlib.Path:
        """Returns the file of a trained agent."""
        return self.out / "agents" / f"{training.name}.{ending}"

    def _config(self, training: Training) -> TrainConfig:
        config = self.settings.config
        query = training.agent.rpartition("_")[2]
        return dataclasses.replace(
            config,
            target=dataclasses.replace(config.target, ask_query=query),
            loop=dataclasses.replace(config.loop, seed=training.seed),
        )

    def _learned(self, training: Training, _: int) -> dict[str, Any]:
        settings, config, data = self.settings, self._config(training), DataDirectory.open(self.data)
        if training.fold is not None:
            splits = agents.read_splits(data, training.fold, settings.folds, training.seed)
        else:
            splits = agents.read_splits(data)
        if training.agent.startswith("dyqn"):
            return agents.dyqn(splits, config, settings.converged)
        classifier = joblib.load(self.path(Training(CALIBRATED, settings.config.loop.seed), "joblib"))
        return agents.partially_observed(splits, classifier.triage_values, config, settings.converged)

    def _supervised(self, training: Training, jobs: int) -> Mapping[str, Any]:
        splits = agents.read_splits(DataDirectory.open(self.data))
        train, codes, seed = splits.train, splits.evidence_count, training.seed
        config = EnsembleConfig(calibrated=training.agent != UNCALIBRATED, seed=seed, jobs=jobs)
        if training.agent == FULLY_OBSERVED:
            vignettes = np.arange(len(train.decision_counts))
            ensemble = train_ensemble(sparse_states(train, codes), train.decision_counts, vignettes, config)
            return agents.fully_observed(ensemble.triage_values, splits)
        learned = _drawn(powerset(train, codes, seed), self.settings.powerset_rows, seed)
        ensemble = train_ensemble(*learned, config)
        if training.agent == CALIBRATED:
            with whole_file.path_replacing(self.path(training, "joblib")) as unfinished:
                joblib.dump(ensemble, unfinished, compress=True)
        judged = _drawn(powerset(splits.test, codes, seed), JUDGED_ROWS, seed)
        decisions = ensemble.triage_values(judged.states).argmax(axis=1)[np.newaxis]
        quality = metrics.triage_quality(decisions, judged.decision_counts)
        return {
            "pieces": judged.states.getnnz(axis=1),
            "vignettes": judged.vignettes,
            **{name: quality[name] for name in ("appropriateness", "safety")},
        }


def _write(path: pathlib.Path, values: Mapping[str, Any]) -> None:
    with whole_file.replacing(path) as file:
        json.dump(plain(values), file, allow_nan=False)


def _drawn(rows: Powerset, limit: int, seed: int) -> Powerset:
    places = draw_states(rows.vignettes, limit, seed)
    return Powerset(rows.states[places], rows.decision_counts[places], rows.vignettes[places])

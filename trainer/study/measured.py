"""What the finished tasks of a study measured, vignette by vignette; several seeds of an agent are averaged."""

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trainer.study.folds import fold_rows
from trainer.study.study import ABLATIONS, DEFAULT_PRESET, StudySettings, ablation_task, agent_task, fold_task, seeds_of

Outcomes = Mapping[str, Mapping[str, Any]]
"""The result of each finished task by name; without tasks that failed or were not planned."""

Values = dict[str, np.ndarray]
"""By metric, float `[V]`."""


class Folds(NamedTuple):
    """Cross-validation: every vignette is tested once in each repetition. Float `[V]`, training vignettes first."""

    values: Values  # means over the repetitions
    as_clinicians: Values  # NaN where clinicians are not judged
    clinicians: Values  # likewise; empty if not measured
    repetitions: int


class Measured:
    """The values of vignettes by agent, None where a task has not finished."""

    def __init__(self, settings: StudySettings, outcomes: Outcomes):
        self.settings, self.outcomes = settings, outcomes
        self.seed = settings.config.loop.seed

    def trained(self, name: str) -> list[tuple[int, Mapping[str, Any]]]:
        """Returns the seeds of a learning agent or of a variant of DyQN-OR, with what came of each."""
        counts = {"dyqn": self.settings.seeds, DEFAULT_PRESET: self.settings.default_preset_seeds}
        count = counts.get(name, counts.get(name.partition("_")[0], self.settings.partially_observed_seeds))
        of, count = (ablation_task, self.settings.seeds) if name in ABLATIONS else (agent_task, count)
        tasks = [(seed, of(name, seed)) for seed in seeds_of(self.settings, count)]
        return [(seed, self.outcomes[task]) for seed, task in tasks if task in self.outcomes]

    def as_clinicians(self, name: str) -> Values | None:
        """Returns the values on the test vignettes on which clinicians are judged, by all clinicians but one."""
        return self._averaged(name, "as_clinicians")

    def by_all(self, name: str, split: str) -> Values | None:
        """Returns the values on the vignettes of a split, by all clinicians.

        The learning agents' training vignettes are the same sample.
        """
        return self._averaged(name, "vignettes", split)

    def first(self, name: str) -> Values | None:
        """Returns the values on the test vignettes in a learning agent's first evaluation."""
        return self._averaged(name, "first")

    def folds(self) -> Folds | None:
        """Returns the cross-validation of DyQN-OR, from those repetitions of which every fold is finished."""
        repetitions = []
        for seed in seeds_of(self.settings, self.settings.fold_seeds):
            folds = [self.outcomes.get(fold_task(seed, fold)) for fold in range(self.settings.folds)]
            if folds and all(folds):
                repetitions.append(_in_order([each for each in folds if each], seed))
        if not repetitions:
            return None
        values, judged = (_mean([each[place] for each in repetitions]) for place in range(2))
        return Folds(values, judged, self._clinicians(len(values["safety"])), len(repetitions))

    def _averaged(self, name: str, *keys: str) -> Values | None:
        single = {**self.outcomes.get("fixed", {}), "fully_observed": self.outcomes.get("fully_observed")}
        outcomes: list[Any] = [single[name]] if name in single else [outcome for _, outcome in self.trained(name)]
        values_of_agents = []
        for outcome in outcomes:
            if not outcome:
                continue
            values = functools.reduce(operator.getitem, keys, outcome)
            values_of_agents.append({metric: np.asarray(each, float) for metric, each in values.items()})
        return _mean(values_of_agents) if values_of_agents and len(values_of_agents[0]["safety"]) else None

    def _clinicians(self, vignettes: int) -> Values:
        human = self.outcomes.get("fixed", {}).get("human")
        if not human:
            return {}
        train, test = (human["judged"][split] for split in ("train", "test"))
        tested = self.by_all("always_green", "test") or {}
        rows = np.concatenate([train, np.asarray(test) + vignettes - len(tested["safety"])]).astype(int)
        values: Values = {}
        for metric in ("appropriateness", "safety"):
            values[metric] = np.full(vignettes, np.nan)
            values[metric][rows] = np.concatenate([human["vignettes"][split][metric] for split in ("train", "test")])
        return values


def _in_order(folds: Sequence[Mapping[str, Any]], seed: int) -> tuple[Values, Values]:
    """Returns the values of a repetition in the order of the vignettes: by all clinicians, and by all but one."""
    vignettes = sum(len(fold["vignettes"]["test"]["safety"]) for fold in folds)
    metrics = list(folds[0]["vignettes"]["test"])
    values, judged = ({metric: np.full(vignettes, np.nan) for metric in metrics} for _ in range(2))
    for number, fold in enumerate(folds):
        _, rows = fold_rows(vignettes, len(folds), number, seed)
        for metric in metrics:
            values[metric][rows] = fold["vignettes"]["test"][metric]
            judged[metric][rows[fold["judged"]]] = fold["as_clinicians"][metric]
    return values, judged


def _mean(each: Sequence[Values]) -> Values:
    return {metric: np.mean([values[metric] for values in each], axis=0) for metric in each[0]}

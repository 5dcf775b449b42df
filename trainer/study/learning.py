"""Training one agent of the study, with its learning curve (paper, fig:learning_rate)."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from tf_agents.policies import tf_policy

from trainer.config import TrainConfig
from trainer.dyqn.rollout import Outcomes, Rollout
from trainer.evaluation import metrics
from trainer.evaluation.measurement import order_seeds
from trainer.study.comparison import judged_alike, judged_rows, plain_values
from trainer.study.folds import concatenate, fold_rows, sample_rows, select
from trainer.study.state_values import StateValues
from trainer.study.stopping import AskValues, EvaluationOrders
from trainer.training.session import EVALUATION_SEED
from trainer.vignettes.arrays import VignetteArrays
from trainer.vignettes.tfrecord import DataDirectory


class Learner(Protocol):
    """Anything that takes training steps, such as `trainer.dyqn.loop.TrainingLoop`."""

    def run(self, until_step: int) -> Any:
        """Takes steps until `until_step` have been taken."""


@dataclasses.dataclass(frozen=True)
class Splits:
    """What an agent is trained on and tested on."""

    train: VignetteArrays
    test: VignetteArrays
    evidence_count: int


class Played(NamedTuple):
    """Vignettes, and the current agent's outcomes on them."""

    decision_counts: np.ndarray  # uint8 [V, 4]
    outcomes: Callable[[], Outcomes]


def splits_of(data: DataDirectory, settings: Mapping[str, Any]) -> Splits:
    """Returns the common split of the data directory, or the fold that the settings of a training name."""
    train, test = data.read("train"), data.read("test")
    if "folds" in settings:
        both = concatenate(train, test)
        seed = settings["config"]["loop"]["seed"]
        rows = fold_rows(len(both.decision_counts), settings["folds"], settings["fold"], seed)
        train, test = (select(both, part) for part in rows)
    return Splits(train, test, len(data.vocabulary))


class Evaluations:
    """Evaluations of the greedy agent during training, in the same evidence orders each time."""

    def __init__(self, played: Mapping[str, Played]):
        """Starts without evaluations.

        Args:
            played: vignettes by split, including `test`.
        """
        self._played = dict(played)
        self._steps: list[int] = []
        self._values: dict[str, list[dict[str, np.ndarray]]] = {name: [] for name in self._played}
        self._as_clinicians: list[dict[str, np.ndarray]] = []

    def add(self, step: int) -> None:
        """Evaluates the current agent."""
        self._steps.append(step)
        for name, played in self._played.items():
            outcomes, counts = played.outcomes(), played.decision_counts
            values = metrics.agent_metrics(outcomes, counts)
            self._values[name].append(values)
            if name == "test":
                self._as_clinicians.append(judged_alike(outcomes.decisions, values, counts))

    def report(self, converged: int) -> dict[str, Any]:
        """Returns all evaluations.

        Args:
            converged: number of evaluations at the end that count as those of the trained agent.

        Returns:
            `curve` (`steps`, and by split the means of each metric at each step), `converged` (by split the means over
            the last evaluations), `vignettes` (by split and metric, each vignette's mean over the last evaluations),
            `as_clinicians` (the same on the test vignettes on which clinicians are judged, by all clinicians but one),
            `judged` (the places of these) and `first` (each test vignette's value in the first evaluation).
        """
        names = list(self._values["test"][0])
        curve: dict[str, Any] = {"steps": self._steps}
        for split, values in self._values.items():
            curve[split] = {name: [float(each[name].mean()) for each in values] for name in names}

        def last(evaluations: list[dict[str, np.ndarray]]) -> dict[str, list[float]]:
            chosen = evaluations[-converged:]
            return plain_values({name: np.mean([each[name] for each in chosen], axis=0) for name in names})

        return {
            "curve": curve,
            "converged": {
                split: {name: float(np.mean(curve[split][name][-converged:])) for name in names}
                for split in self._values
            },
            "vignettes": {split: last(values) for split, values in self._values.items()},
            "as_clinicians": last(self._as_clinicians),
            "judged": judged_rows(self._played["test"].decision_counts).tolist(),
            "first": plain_values(self._values["test"][0]),
        }


def evaluated_splits(splits: Splits, train_sample: int) -> dict[str, VignetteArrays]:
    """Returns the vignettes that evaluations play: all of `test`, and a fixed sample of `train`."""
    rows = sample_rows(len(splits.train.decision_counts), train_sample, EVALUATION_SEED)
    return {"test": splits.test, "train": select(splits.train, rows)}


def rollout_evaluations(
    splits: Mapping[str, VignetteArrays], evidence_count: int, policy: tf_policy.TFPolicy, config: TrainConfig
) -> Evaluations:
    """Returns the evaluations of a policy."""
    orders = order_seeds(EVALUATION_SEED, config.loop.evaluation_orders)

    def played(vignettes: VignetteArrays) -> Played:
        rollout = Rollout(vignettes, evidence_count, config.environment.max_questions, policy)
        return Played(vignettes.decision_counts, lambda: rollout.run(orders))

    return Evaluations({name: played(vignettes) for name, vignettes in splits.items()})


def table_evaluations(
    splits: Mapping[str, VignetteArrays], values: StateValues, ask_values: AskValues, config: TrainConfig
) -> Evaluations:
    """Returns the evaluations of an agent with fixed triage values, in the orders of `rollout_evaluations`.

    Args:
        splits: what to play.
        values: its triage values.
        ask_values: its Q(s, ask), which changes during training.
        config: question limit and number of orders.
    """
    orders = order_seeds(EVALUATION_SEED, config.loop.evaluation_orders)

    def played(vignettes: VignetteArrays) -> Played:
        tables = EvaluationOrders(vignettes, values, config.environment.max_questions, orders)
        return Played(vignettes.decision_counts, lambda: tables.outcomes(ask_values))

    return Evaluations({name: played(vignettes) for name, vignettes in splits.items()})


def learn(learner: Learner, evaluations: Evaluations, config: TrainConfig) -> None:
    """Takes all steps, with an evaluation at each interval and at the end.

    Raises:
        TrainingDivergedError: see `trainer.dyqn.loop.TrainingLoop.run`.
    """
    loop = config.loop
    stops = [*range(loop.evaluation_interval, loop.steps, loop.evaluation_interval), loop.steps]
    for step in stops:
        learner.run(step)
        evaluations.add(step)

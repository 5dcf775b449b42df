"""The agents of the paper's table: how each is trained, and its metrics on each vignette."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action
from trainer.config import TrainConfig
from trainer.data.arrays import VignetteArrays, fold_rows
from trainer.data.state import sparse_states
from trainer.data.tfrecord import DataDirectory
from trainer.dyqn.assembly import build_loop
from trainer.dyqn.rollout import Outcomes, Rollout
from trainer.evaluation import metrics
from trainer.evaluation.vignette_statistics import MINIMUM_DECISIONS
from trainer.study.partially_observed import PartiallyObservedLoop, TriageValues, evaluation_orders, greedy_outcomes
from trainer.training.session import EVALUATION_ORDERS, EVALUATION_SEED

METRICS = ("appropriateness", "safety", "questions", "evidence_seen", "forced")
CURVES, QUALITY = METRICS[:3], METRICS[:2]
"""The metrics of the paper's learning curves, and those by which clinicians are judged."""
RANDOM_EPISODES = 10  # of the random agent on each vignette
TRAIN_SAMPLE = 150  # training vignettes that evaluations include, at most

Evaluation = dict[str, dict[str, np.ndarray]]
"""An agent's metrics on each vignette, float `[V]` each.

`test` and `train` are scored against all clinicians of a vignette, as in the paper. `leave_one_out` is of the test
vignettes with enough decisions, scored as their clinicians are, against all but one; empty if there are none."""


class Splits(NamedTuple):
    """What an agent is trained on, and what evaluations play."""

    train: VignetteArrays
    sample: VignetteArrays  # of train
    test: VignetteArrays
    evidence_count: int

    @property
    def played(self) -> tuple[VignetteArrays, VignetteArrays]:
        """What evaluations play: the test vignettes, and the sample of training vignettes."""
        return self.test, self.sample

    def evaluation(self, outcomes: Iterable[Outcomes]) -> Evaluation:
        """Returns the metrics of an agent's episodes on each part of `played`."""
        test, train = outcomes
        of_test = metrics.agent_metrics(test, self.test.decision_counts)
        of_train = metrics.agent_metrics(train, self.sample.decision_counts)
        judged = metrics.quality_by_others(self.test.decision_counts, MINIMUM_DECISIONS, test.decisions)
        return {
            "test": {name: of_test[name] for name in METRICS},
            "train": {name: of_train[name] for name in METRICS},
            "leave_one_out": {name: judged[name] for name in QUALITY},
        }


def read_splits(data: DataDirectory, fold: int | None = None, folds: int = 0, seed: int = 0) -> Splits:
    """Returns the splits of the data directory, or those of a fold of the cross-validation of this seed."""
    train, test = data.read("train"), data.read("test")
    if fold is not None:
        both = train.joined(test)
        train, test = (both.select(rows) for rows in fold_rows(len(both.decision_counts), folds, fold, seed))
    learned = len(train.decision_counts)
    sample = np.sort(np.random.default_rng(EVALUATION_SEED).choice(learned, min(learned, TRAIN_SAMPLE), replace=False))
    return Splits(train, train.select(sample), test, len(data.vocabulary))


def dyqn(splits: Splits, config: TrainConfig, converged: int) -> dict[str, Any]:
    """Trains a DyQN agent, see `learn`."""
    loop = build_loop(splits.train, splits.evidence_count, config)
    limit = config.environment.max_questions
    rollouts = [Rollout(part, splits.evidence_count, limit, loop.agent.policy) for part in splits.played]
    return learn(loop.run, lambda: [rollout.run(EVALUATION_ORDERS) for rollout in rollouts], splits, config, converged)


def partially_observed(
    splits: Splits, triage_values: TriageValues, config: TrainConfig, converged: int
) -> dict[str, Any]:
    """Trains when to ask, with the triage values of a classifier, see `learn`."""
    loop = PartiallyObservedLoop(splits.train, splits.evidence_count, triage_values, config)
    limit, codes = config.environment.max_questions, splits.evidence_count
    orders = [evaluation_orders(part, triage_values, codes, limit, EVALUATION_ORDERS) for part in splits.played]

    def outcomes() -> list[Outcomes]:
        return [greedy_outcomes(part, loop.ask_values, limit) for part in orders]

    return learn(loop.run, outcomes, splits, config, converged)


def learn(
    run: Callable[[int], Any],
    outcomes: Callable[[], Iterable[Outcomes]],
    splits: Splits,
    config: TrainConfig,
    converged: int,
) -> dict[str, Any]:
    """Trains an agent, and evaluates it at each interval and at the end (paper, fig:learning_rate).

    Args:
        run: takes training steps until a number of them have been taken.
        outcomes: plays the current agent on `splits.played`, each time in the same evidence orders.
        splits: what is played.
        config: its loop says when to evaluate.
        converged: number of evaluations at the end that count as those of the trained agent.

    Returns:
        The mean of the last evaluations, see `Evaluation`; and `curve`: `steps`, and by split the means of each metric.

    Raises:
        TrainingDivergedError: see `trainer.dyqn.loop.TrainingLoop.run`.
    """
    loop, evaluations = config.loop, []
    steps = [*range(loop.evaluation_interval, loop.steps, loop.evaluation_interval), loop.steps]
    for step in steps:
        run(step)
        evaluations.append(splits.evaluation(outcomes()))
    means = {
        split: {name: [float(each[split][name].mean()) for each in evaluations] for name in CURVES}
        for split in ("test", "train")
    }
    return {**mean_of(evaluations[-converged:]), "curve": {"steps": steps, **means}}


def mean_of(evaluations: Sequence[Evaluation]) -> Evaluation:
    """Returns the mean of several evaluations on the same vignettes, vignette by vignette."""
    first, *_ = evaluations
    return {
        split: {name: np.mean([each[split][name] for each in evaluations], axis=0) for name in first[split]}
        for split in ("test", "train", "leave_one_out")
    }


def random(splits: Splits, seed: int, max_questions: int) -> Evaluation:
    """Evaluates the agent that takes each of the five actions with equal probability; at the limit, it must triage."""
    generator = np.random.default_rng(seed)

    def at_random(vignettes: VignetteArrays) -> Outcomes:
        shape = (RANDOM_EPISODES, len(vignettes.decision_counts))
        # Failures before the first success, where each of the four triage decisions is one.
        questions = np.minimum(generator.geometric(NUM_DECISIONS / NUM_ACTIONS, shape) - 1, max_questions)
        seen = np.minimum(questions + 1, np.diff(vignettes.offsets))
        return Outcomes(generator.integers(0, NUM_DECISIONS, shape), questions, seen, questions >= max_questions)

    return splits.evaluation(map(at_random, splits.played))


def always(decision: Action, splits: Splits) -> Evaluation:
    """Evaluates an agent that always gives the same decision, such as the paper's "always green"."""
    counts = [len(part.decision_counts) for part in splits.played]
    return splits.evaluation(_at_once(np.full(count, int(decision)), np.ones(count, int)) for count in counts)


def fully_observed(triage_values: TriageValues, splits: Splits) -> Evaluation:
    """Evaluates a classifier that sees all evidence, as if asked for; equal values go to the more urgent decision."""
    return splits.evaluation(
        _at_once(triage_values(sparse_states(part, splits.evidence_count)).argmax(axis=1), np.diff(part.offsets))
        for part in splits.played
    )


def _at_once(decisions: np.ndarray, pieces: np.ndarray) -> Outcomes:
    """Returns episodes of V vignettes that end with `decisions` after so many `pieces` of evidence, int `[V]` each."""
    never: np.ndarray = np.zeros([1, len(pieces)], bool)
    return Outcomes(decisions[np.newaxis], pieces[np.newaxis] - 1, pieces[np.newaxis], never)


def clinicians(splits: Splits) -> Evaluation:
    """Evaluates the clinicians, each by the others, where enough of them decided (paper, "The human baseline")."""
    scored = (metrics.quality_by_others(part.decision_counts, MINIMUM_DECISIONS) for part in splits.played)
    test, train = ({name: each[name] for name in QUALITY} for each in scored)
    return {"test": test, "train": train, "leave_one_out": test}

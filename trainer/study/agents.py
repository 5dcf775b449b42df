"""The agents of the paper's table: how each is trained, and its metrics on each vignette."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action
from trainer.config import TrainConfig
from trainer.data.arrays import VignetteArrays, fold_rows
from trainer.data.state import sparse_states
from trainer.data.tfrecord import DataDirectory
from trainer.dyqn.assembly import build_loop
from trainer.dyqn.rollout import Outcomes, Rollout, order_seeds
from trainer.evaluation import as_clinicians, metrics
from trainer.evaluation.vignette_statistics import MINIMUM_DECISIONS
from trainer.study.partially_observed import (
    PartiallyObservedLoop,
    TriageValues,
    evaluation_orders,
    greedy_outcomes,
)
from trainer.training.session import EVALUATION_SEED

METRICS = ("appropriateness", "safety", "questions", "evidence_seen", "forced")
CURVES = METRICS[:3]
"""The metrics of the paper's learning curves."""
RANDOM_EPISODES = 10
"""Episodes of the random agent on each vignette."""
TRAIN_SAMPLE = 150
"""Maximum number of training vignettes that evaluations include."""

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

    def both(self, play: Callable[[VignetteArrays], Outcomes]) -> Evaluation:
        """Returns the evaluation of an agent that `play` plays."""
        return evaluation(play(self.test), play(self.sample), self)


def read_splits(data: DataDirectory, fold: int = 0, folds: int = 0, seed: int = 0) -> Splits:
    """Returns the splits of the data directory; with `folds`, a fold of the cross-validation of this seed."""
    train, test = data.read("train"), data.read("test")
    if folds:
        both = train.joined(test)
        train, test = (both.select(rows) for rows in fold_rows(len(both.decision_counts), folds, fold, seed))
    learned = len(train.decision_counts)
    sample = np.sort(np.random.default_rng(EVALUATION_SEED).choice(learned, min(learned, TRAIN_SAMPLE), replace=False))
    return Splits(train, train.select(sample), test, len(data.vocabulary))


def dyqn(splits: Splits, config: TrainConfig, converged: int) -> dict[str, Any]:
    """Trains a DyQN agent, see `learn`."""
    loop = build_loop(splits.train, splits.evidence_count, config)
    orders = order_seeds(EVALUATION_SEED, config.loop.evaluation_orders)

    def played(vignettes: VignetteArrays) -> Callable[[], Outcomes]:
        limit = config.environment.max_questions
        rollout = Rollout(vignettes, splits.evidence_count, limit, loop.agent.policy)
        return lambda: rollout.run(orders)

    return learn(loop.run, played, splits, config, converged)


def partially_observed(
    splits: Splits, triage_values: TriageValues, config: TrainConfig, converged: int
) -> dict[str, Any]:
    """Trains when to ask, with the triage values of a classifier, see `learn`."""
    loop = PartiallyObservedLoop(splits.train, splits.evidence_count, triage_values, config)
    seeds = order_seeds(EVALUATION_SEED, config.loop.evaluation_orders)
    limit = config.environment.max_questions

    def played(vignettes: VignetteArrays) -> Callable[[], Outcomes]:
        orders = evaluation_orders(vignettes, triage_values, splits.evidence_count, limit, seeds)
        return lambda: greedy_outcomes(orders, loop.ask_values, limit)

    return learn(loop.run, played, splits, config, converged)


def learn(
    run: Callable[[int], Any],
    played: Callable[[VignetteArrays], Callable[[], Outcomes]],
    splits: Splits,
    config: TrainConfig,
    converged: int,
) -> dict[str, Any]:
    """Trains an agent, and evaluates it at each interval and at the end (paper, fig:learning_rate).

    Args:
        run: takes training steps until a number of them have been taken.
        played: from vignettes to what plays the current agent on them, each time in the same evidence orders.
        splits: see `Splits`.
        config: of the training.
        converged: number of evaluations at the end that count as those of the trained agent.

    Returns:
        The mean of the last evaluations, see `Evaluation`; and `curve`: `steps`, and by split the means of each metric.

    Raises:
        TrainingDivergedError: see `trainer.dyqn.loop.TrainingLoop.run`.
    """
    loop = config.loop
    steps = [*range(loop.evaluation_interval, loop.steps, loop.evaluation_interval), loop.steps]
    play_test, play_sample = played(splits.test), played(splits.sample)
    evaluations = []
    for step in steps:
        run(step)
        evaluations.append(evaluation(play_test(), play_sample(), splits))
    means = {
        split: {name: [float(each[split][name].mean()) for each in evaluations] for name in CURVES}
        for split in ("test", "train")
    }
    return {**mean_of(evaluations[-converged:]), "curve": {"steps": steps, **means}}


def evaluation(test: Outcomes, train: Outcomes, splits: Splits) -> Evaluation:
    """Returns the metrics of an agent's episodes on the test vignettes and on the sample of training vignettes."""
    of_test, of_train = (
        metrics.agent_metrics(outcomes, vignettes.decision_counts)
        for outcomes, vignettes in ((test, splits.test), (train, splits.sample))
    )
    judged = as_clinicians.quality(test.decisions, splits.test.decision_counts, MINIMUM_DECISIONS)
    return {
        "test": {name: of_test[name] for name in METRICS},
        "train": {name: of_train[name] for name in METRICS},
        "leave_one_out": {name: judged[name] for name in METRICS[:2]},
    }


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

    def play(vignettes: VignetteArrays) -> Outcomes:
        shape = (RANDOM_EPISODES, len(vignettes.decision_counts))
        # Failures before the first success, where each of the four triage decisions is one.
        questions = np.minimum(generator.geometric(NUM_DECISIONS / NUM_ACTIONS, shape) - 1, max_questions)
        seen = np.minimum(questions + 1, np.diff(vignettes.offsets))
        return Outcomes(generator.integers(0, NUM_DECISIONS, shape), questions, seen, questions >= max_questions)

    return splits.both(play)


def always(decision: Action, splits: Splits) -> Evaluation:
    """Evaluates an agent that always gives the same decision, such as the paper's "always green"."""

    def play(vignettes: VignetteArrays) -> Outcomes:
        nothing: np.ndarray = np.zeros([1, len(vignettes.decision_counts)], np.int32)
        return Outcomes(nothing + int(decision), nothing, nothing + 1, nothing.astype(bool))

    return splits.both(play)


def fully_observed(triage_values: TriageValues, splits: Splits) -> Evaluation:
    """Evaluates a classifier that sees all evidence; equal values go to the more urgent decision.

    `questions` is the number of pieces after the first one.
    """

    def play(vignettes: VignetteArrays) -> Outcomes:
        values = triage_values(sparse_states(vignettes, splits.evidence_count))
        pieces = np.diff(vignettes.offsets)[np.newaxis]
        return Outcomes(values.argmax(axis=1)[np.newaxis], pieces - 1, pieces, np.zeros(pieces.shape, bool))

    return splits.both(play)


def clinicians(splits: Splits) -> Evaluation:
    """Evaluates the clinicians, each by the others, where enough of them decided (paper, "The human baseline")."""
    on_test, on_train = (
        metrics.human_metrics(vignettes.decision_counts, MINIMUM_DECISIONS)
        for vignettes in (splits.test, splits.sample)
    )
    return {"test": on_test, "train": on_train, "leave_one_out": on_test}

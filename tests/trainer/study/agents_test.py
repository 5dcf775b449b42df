import numpy as np
import pytest
import tensorflow as tf

from schemas.triage import Action
from trainer.config import TrainConfig
from trainer.data.arrays import VignetteArrays
from trainer.data.tfrecord import DataDirectory
from trainer.dyqn.environment import action_spec, time_step_spec
from trainer.dyqn.policy import QPolicy
from trainer.dyqn.rollout import Rollout
from trainer.study import agents
from trainer.study.agents import Splits, read_splits


def _splits(vignettes):
    arrays = VignetteArrays(np.arange(len(vignettes.decision_counts)), *vignettes, tags=())
    return Splits(arrays, arrays, arrays, 6)


@pytest.fixture(scope="module")
def many(vignettes_of):
    """1,000 vignettes: Red alone is appropriate."""
    return _splits(vignettes_of([([1, 2, -3], [2, 0, 0, 0])] * 1000))


def test_the_random_agent_asks_a_quarter_of_a_question(many):
    # The number of questions before one of the four triage actions (4/5) comes is geometric: mean (1/5) / (4/5) = .25,
    # variance .25 * 1.25, so that the mean of 10,000 episodes has a standard deviation of .0056.
    test = agents.random(many, seed=0, max_questions=23)["test"]
    assert test["questions"].mean() == pytest.approx(0.25, abs=0.02)
    assert test["appropriateness"].mean() == pytest.approx(0.25, abs=0.018)  # Red; deviation .0043
    assert test["forced"].mean() == 0.0


def test_always_green_asks_nothing_and_knows_one_piece(vignettes_of):
    splits = _splits(vignettes_of([([1, 2], [1, 0, 1, 0]), ([3], [1, 2, 0, 0]), ([4], [0, 0, 0, 3])]))
    test = agents.always(Action.GREEN, splits)["test"]
    assert test["appropriateness"].tolist() == [1.0, 0.0, 0.0]
    assert test["safety"].tolist() == [1.0, 0.0, 1.0]
    assert (test["questions"].tolist(), test["evidence_seen"].tolist()) == ([0.0] * 3, [1.0] * 3)


def test_the_fully_observed_agent_sees_all_evidence_of_each_vignette(vignettes_of):
    def triage(states):
        values = np.zeros([2, 4])
        values[0, [Action.YELLOW, Action.GREEN]] = 0.5  # equal: the more urgent one
        values[1, Action.BLUE] = 1.0
        assert states.toarray().tolist() == [[1, 0, -1, 0, 0, 0], [0, 1, 0, 0, 0, 0]]
        return values

    splits = _splits(vignettes_of([([1, -3], [0, 1, 0, 0]), ([2], [0, 0, 3, 0])]))
    test = agents.fully_observed(triage, splits)["test"]
    assert (test["appropriateness"].tolist(), test["evidence_seen"].tolist()) == ([1.0, 0.0], [2.0, 1.0])


def test_agents_and_clinicians_are_judged_alike_where_three_or_more_decided(vignettes_of):
    splits = _splits(vignettes_of([([1], [0, 1, 2, 0]), ([2], [0, 0, 2, 0])]))
    # Green, with Yellow left out: {Green}, with a Green left out: {Yellow, Green}: appropriate in all three.
    green = agents.always(Action.GREEN, splits)
    assert green["leave_one_out"] == {"appropriateness": [1.0], "safety": [1.0]}
    # The Yellow one is more urgent than {Green}; each Green one is between Yellow and Green: 2/3, and all are safe.
    human = agents.clinicians(splits)
    assert human["leave_one_out"]["appropriateness"] == pytest.approx([2 / 3])
    assert human["test"]["safety"] == pytest.approx([1.0])


class _Switching:
    """An agent that says Green, and after step 20 Red; asks nothing."""

    variables = ()
    output = {"q": tf.zeros([1, 5])}  # noqa: RUF012

    def __init__(self):
        self._says = tf.Variable([[0.0, 0.0, 1.0, 0.0, 0.0]])
        self.stops = []

    def __call__(self, states):
        return {"q": tf.tile(self._says, [tf.shape(states)[0], 1])}

    def run(self, until_step):
        self.stops.append(until_step)
        if until_step > 20:
            self._says.assign([[1.0, 0.0, 0.0, 0.0, 0.0]])


def test_curve_and_means_over_the_last_evaluations(data_directory):
    splits, agent = read_splits(DataDirectory.open(data_directory)), _Switching()
    config = TrainConfig.from_dict({"loop": {"steps": 35, "evaluation_interval": 10, "burn_in_steps": 10}})
    policy = QPolicy(time_step_spec(splits.evidence_count), action_spec(), agent)

    rollouts = [Rollout(part, splits.evidence_count, 23, policy) for part in splits.played]
    report = agents.learn(agent.run, lambda: [each.run([0, 1]) for each in rollouts], splits, config, converged=3)
    assert agent.stops == report["curve"]["steps"] == [10, 20, 30, 35]
    # Red is safe for all; Green is safe where the least urgent decision is Green or Blue.
    green = (splits.test.decision_counts[:, 2:].sum(axis=1) > 0).astype(float)
    assert report["curve"]["test"]["safety"] == pytest.approx([green.mean(), green.mean(), 1.0, 1.0])
    # The last three evaluations are one of Green and two of Red.
    assert report["test"]["safety"] == pytest.approx((green + 2.0) / 3.0)
    assert report["train"]["questions"].mean() == 0.0


def test_the_common_split_is_that_of_the_directory_and_folds_are_of_all(data_directory):
    data = DataDirectory.open(data_directory)
    common = read_splits(data)
    assert (len(common.train.vignette_ids), len(common.test.vignette_ids)) == (40, 10)
    folds = [read_splits(data, fold, folds=2, seed=3) for fold in range(2)]
    tested = np.concatenate([fold.test.vignette_ids for fold in folds])
    assert sorted(tested) == sorted([*common.train.vignette_ids, *common.test.vignette_ids])

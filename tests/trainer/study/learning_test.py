import numpy as np
import pytest
import tensorflow as tf

from trainer.config import TrainConfig
from trainer.dyqn.assembly import build_loop
from trainer.dyqn.environment import action_spec, time_step_spec
from trainer.dyqn.policy import QPolicy
from trainer.study.learning import evaluated_splits, learn, rollout_evaluations, splits_of, table_evaluations
from trainer.study.state_values import StateValues
from trainer.vignettes.tfrecord import DataDirectory


def _config(**loop):
    values = {
        "network": {"hidden_sizes": [8]},
        "memory": {"memory_capacity": 64},
        "loop": {"burn_in_steps": 10, "evaluation_orders": 2, **loop},
    }
    return TrainConfig.from_dict(values)


class _Switching:
    """An agent that says Green, and after step 20 Red; asks nothing."""

    def __init__(self, width):
        self._says = tf.Variable([[0.0, 0.0, 1.0, 0.0, 0.0]])
        self.policy = QPolicy(time_step_spec(width), action_spec(), self)
        self.stops = []

    variables = ()
    output_shape = (None, 5)

    def __call__(self, states):
        return tf.tile(self._says, [tf.shape(states)[0], 1])

    def run(self, until_step):
        self.stops.append(until_step)
        if until_step > 20:
            self._says.assign([[1.0, 0.0, 0.0, 0.0, 0.0]])


@pytest.fixture
def splits(data_directory):
    data = DataDirectory.open(data_directory)
    return splits_of(data, {"config": {}})


def _evaluations(splits, agent, config):
    return rollout_evaluations(evaluated_splits(splits, 15), splits.evidence_count, agent.policy, config)


def test_curve_and_means_over_the_last_evaluations(splits):
    agent, config = _Switching(splits.evidence_count), _config(steps=35, evaluation_interval=10)
    evaluations = _evaluations(splits, agent, config)
    learn(agent, evaluations, config)
    report = evaluations.report(converged=3)
    assert agent.stops == report["curve"]["steps"] == [10, 20, 30, 35]
    counts = splits.test.decision_counts
    # Red is safe for all; Green is safe where the least urgent decision is Green or Blue.
    green = (counts[:, 2:].sum(axis=1) > 0).astype(float)
    assert report["curve"]["test"]["safety"] == pytest.approx([green.mean(), green.mean(), 1.0, 1.0])
    # The last three evaluations are one of Green and two of Red.
    assert report["vignettes"]["test"]["safety"] == pytest.approx((green + 2.0) / 3.0)
    assert report["converged"]["test"]["safety"] == pytest.approx(((green + 2.0) / 3.0).mean())
    assert report["converged"]["train"]["questions"] == 0.0
    assert report["first"]["safety"] == green.tolist()
    # Clinicians are judged where three or more decided; so is the agent, by all of them but one.
    assert report["judged"] == np.flatnonzero(counts.sum(axis=1) >= 3).tolist()
    assert len(report["as_clinicians"]["safety"]) == len(report["judged"])


def test_a_training_whose_steps_are_few_is_evaluated_once(splits):
    agent, config = _Switching(splits.evidence_count), _config(steps=7, evaluation_interval=10)
    evaluations = _evaluations(splits, agent, config)
    learn(agent, evaluations, config)
    assert evaluations.report(converged=10)["curve"]["steps"] == [7]


def test_an_agent_of_a_table_is_evaluated_as_the_same_agent_that_is_played(splits):
    """Its triage value is .5 for Green at first, and .9 for Red once three pieces are known; Q(s, ask) is .7."""
    config = _config(steps=10, evaluation_interval=10)

    def triage(states):
        known = np.abs(states).sum(axis=1).reshape(-1, 1)
        return np.where(known >= 3, [[0.9, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.5, 0.0]])

    class Same(_Switching):
        def __call__(self, states):
            known = tf.reduce_sum(tf.abs(states), axis=1, keepdims=True)
            red, green = [[0.9, 0.0, 0.0, 0.0, 0.7]], [[0.0, 0.0, 0.5, 0.0, 0.7]]
            return tf.where(known >= 3.0, red, green)

    played = evaluated_splits(splits, 15)
    values = StateValues(triage, splits.evidence_count)
    table = table_evaluations(played, values, lambda codes: np.full(len(codes), 0.7, np.float32), config)
    rollout = _evaluations(splits, Same(splits.evidence_count), config)
    for evaluations in (table, rollout):
        evaluations.add(10)
    assert table.report(1) == rollout.report(1)
    assert table.report(1)["converged"]["train"]["questions"] > 1.0


def test_the_sample_of_training_vignettes_is_always_the_same(splits):
    first, second = (evaluated_splits(splits, 15)["train"] for _ in range(2))
    assert first.vignette_ids.tolist() == second.vignette_ids.tolist()
    assert len(first.vignette_ids) == 15


def test_the_common_split_is_that_of_the_directory_and_folds_are_of_all(data_directory):
    data = DataDirectory.open(data_directory)
    common = splits_of(data, {"config": {}})
    assert (len(common.train.vignette_ids), len(common.test.vignette_ids)) == (40, 10)
    folds = [splits_of(data, {"config": {"loop": {"seed": 3}}, "folds": 2, "fold": fold}) for fold in range(2)]
    tested = np.concatenate([fold.test.vignette_ids for fold in folds])
    assert sorted(tested) == sorted([*common.train.vignette_ids, *common.test.vignette_ids])


def test_evaluations_do_not_change_what_a_dyqn_agent_learns(splits, tmp_path):
    config = _config(steps=40, evaluation_interval=15)
    loop = build_loop(splits.train, splits.evidence_count, config)
    beginning = loop.checkpoint().write(str(tmp_path / "checkpoint"))
    loop.run(40)
    undisturbed = loop.network.get_weights()
    loop.checkpoint().read(beginning).assert_consumed()
    learn(loop, _evaluations(splits, loop.agent, config), config)
    assert loop.step == 40
    for mine, theirs in zip(loop.network.get_weights(), undisturbed, strict=True):
        np.testing.assert_array_equal(mine, theirs)

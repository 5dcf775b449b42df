import numpy as np
import pytest
import tensorflow as tf
from tf_agents.environments import tf_environment

from schemas.triage import Action
from trainer.bench import tf_agents_loop
from trainer.bench.settings import BenchVignettes, Settings, save_vignettes
from trainer.dyqn.environment import Mode, VignetteEnvironment


@pytest.fixture
def settings(random_vignettes, tmp_path):
    rows = random_vignettes
    save_vignettes(tmp_path / "v.npz", BenchVignettes(rows.offsets, rows.signed_codes, rows.decision_counts))
    return Settings(
        str(tmp_path / "v.npz"), 30, hidden_sizes=(8, 8), batch_size=4, memory_capacity=64, burn_in_steps=20
    )


def _environment(vignettes_of):
    generator = tf.random.Generator.from_seed(0, alg="philox")
    one = vignettes_of([([1, -3], [0, 1, 2, 0])])
    inner = VignetteEnvironment(one, 4, Mode(True, 23, counterfactual=False), generator)
    return tf_agents_loop.ScalarRewardEnvironment(inner)


@pytest.mark.parametrize(("action", "reward"), [(Action.RED, 0.0), (Action.YELLOW, 0.5), (Action.GREEN, 1.0)])
def test_the_reward_is_that_of_the_decision_taken(vignettes_of, action, reward):
    environment = _environment(vignettes_of)
    assert isinstance(environment, tf_environment.TFEnvironment)
    assert environment.reset().reward.numpy().tolist() == [0.0]
    last = environment.step(tf.constant([int(action)]))
    assert last.reward.numpy().tolist() == [reward]
    assert bool(last.is_last()[0])


def test_asking_earns_nothing_and_is_masked_once_nothing_is_left(vignettes_of):
    environment = _environment(vignettes_of)
    _, mask = environment.reset().observation
    assert mask.numpy().tolist() == [[1, 1, 1, 1, 1]]
    asked = environment.step(tf.constant([int(Action.ASK)]))
    assert asked.reward.numpy().tolist() == [0.0]
    assert asked.observation[1].numpy().tolist() == [[1, 1, 1, 1, 0]]


@pytest.mark.slow  # the graph of the whole loop takes long to build
def test_every_step_is_one_optimisation_of_the_stock_agent(settings, monkeypatch):
    agents = []
    build = tf_agents_loop.build_agent
    monkeypatch.setattr(tf_agents_loop, "build_agent", lambda *given: agents.append(build(*given)) or agents[-1])
    _, take = tf_agents_loop.learner_of(settings)
    before = [variable.numpy() for variable in agents[0].collect_policy.variables()]
    take(3)
    assert int(agents[0].train_step_counter) == 3
    after = [variable.numpy() for variable in agents[0].collect_policy.variables()]
    assert any(np.any(old != new) for old, new in zip(before, after, strict=True))

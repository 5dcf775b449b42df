import numpy as np
import pytest
import tensorflow as tf

from schemas.safety_rules import SafetyRule
from schemas.triage import Action
from tests.builders import network_of, sigmoid_network, symptoms
from trainer.config import ExplorationConfig, NetworkConfig
from trainer.dyqn.environment import Observation, action_spec, time_step_spec
from trainer.dyqn.network import build_network
from trainer.dyqn.policy import QPolicy, add_ask_noise, noise_scale
from trainer.graph.rules import RuleGraph


def _time_step(states, forced):
    spec = time_step_spec(states.shape[1])
    rows = len(states)
    return spec._replace(
        step_type=tf.ones([rows], tf.int32),
        reward=tf.zeros([rows, 4]),
        discount=tf.ones([rows]),
        observation=Observation(tf.constant(states), tf.constant(forced)),
    )


def test_noise_goes_to_ask_alone_and_has_the_asked_scale():
    generator = tf.random.Generator.from_seed(1, alg="philox")
    q = tf.fill([20_000, 5], 0.5)
    noise = (add_ask_noise(q, lambda shape: 0.05 * generator.normal(shape)) - q).numpy()
    np.testing.assert_array_equal(noise[:, : Action.ASK], 0.0)
    # Standard error of the mean .05/141 = 3.5e-4, of the deviation .05/200 = 2.5e-4: five of each.
    assert abs(noise[:, Action.ASK].mean()) < 2e-3
    assert noise[:, Action.ASK].std() == pytest.approx(0.05, abs=1.3e-3)


@pytest.mark.parametrize(
    ("episode", "expected"),
    [(0, 0.05), (1500, (0.05 + 0.001) / 2), (3000, 0.001), (1_000_000, 0.001)],
)
def test_noise_falls_linearly_and_then_stays(episode, expected):
    scale = noise_scale(tf.constant(episode, tf.int64), ExplorationConfig())
    assert float(scale) == pytest.approx(expected, rel=1e-5)


# Without a kernel the biases decide: ask first, Green second. Probabilities that say Blue decide nothing.
Q, BLUE = (np.zeros([3, 5]), [-1, 0, 1, -1, 2]), (np.zeros([3, 4]), [0, 0, 0, 9])


@pytest.mark.parametrize(
    "network",
    [network_of(Q), sigmoid_network(q=Q, appropriate=BLUE, safe=BLUE)],
    ids=["q alone", "with probabilities"],
)
def test_policy_takes_the_best_action_and_the_best_triage_where_forced(network):
    policy = QPolicy(time_step_spec(3), action_spec(), network)
    states = np.array([[1, 0, 0], [1, 0, 0], [0, 0, 0]], np.float32)
    step = policy.action(_time_step(states, [False, True, True]))
    np.testing.assert_array_equal(step.action, [Action.ASK, Action.GREEN, Action.ASK])  # nothing known: ask
    np.testing.assert_allclose(step.info["q"][0], 1 / (1 + np.exp([1, 0, -1, 1, -2])), rtol=1e-5)


def test_info_holds_q_values_without_the_noise_that_changed_the_action():
    network = build_network(3, NetworkConfig(hidden_sizes=(4,)), seed=0)
    time_step = _time_step(np.array([[0, 1, 0]], np.float32), [False])
    noisy = QPolicy(time_step_spec(3), action_spec(), network, lambda shape: tf.fill(shape, 9.0))
    quiet = QPolicy(time_step_spec(3), action_spec(), network, lambda shape: tf.fill(shape, -9.0))
    assert int(noisy.action(time_step).action[0]) == Action.ASK
    assert int(quiet.action(time_step).action[0]) != Action.ASK
    np.testing.assert_array_equal(noisy.action(time_step).info["q"], quiet.action(time_step).info["q"])


def test_a_policy_with_rules_obeys_them():
    vocabulary = symptoms(*"abc")
    rules = [
        SafetyRule("now", "", Action.RED, True, (("a", True),)),
        SafetyRule("soon", "", Action.YELLOW, False, (("b", True),)),
    ]
    policy = QPolicy(time_step_spec(3), action_spec(), network_of(Q), rules=RuleGraph(rules, vocabulary))
    states = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    step = policy.action(_time_step(states, [False, False, True, True]))
    # Red at once; keeps asking, as the rule for Yellow lets it; forced, so Yellow in place of Green; no rule, so Green.
    np.testing.assert_array_equal(step.action, [Action.RED, Action.ASK, Action.YELLOW, Action.GREEN])

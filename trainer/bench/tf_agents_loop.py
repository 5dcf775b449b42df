"""TF-Agents' own DQN loop as a contestant, all of it in one compiled function.

It is made of the stock parts `DynamicStepDriver`, `TFUniformReplayBuffer`, `DqnAgent` and `QNetwork`, with one
optimisation a step, in our environment with the reward of the decision taken. The settings favour its speed: the target
network is copied every 1,000 steps, not every step as by default; the optimiser is TensorFlow's own, not that of Keras;
there are no summaries; and the dataset of the replay buffer prefetches.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tf_agents.agents.dqn import dqn_agent
from tf_agents.drivers import dynamic_step_driver
from tf_agents.environments import tf_environment
from tf_agents.networks import q_network
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts
from tf_agents.utils import common

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action
from trainer.bench.settings import Settings
from trainer.dyqn.environment import Mode, VignetteEnvironment

TARGET_UPDATE_PERIOD = 1000
PREFETCHED = 3


class ScalarRewardEnvironment(tf_environment.TFEnvironment):
    """The vignette environment with one number as reward: that of the triage decision taken, 0 for asking.

    Observation: the state float32 `[B, E]` and a mask int32 `[B, A]` of the actions that are allowed.
    """

    def __init__(self, inner: VignetteEnvironment):
        self._inner = inner
        self._taken = tf.Variable(tf.zeros([inner.batch_size], tf.int32), name="taken")
        mask = tensor_spec.BoundedTensorSpec([NUM_ACTIONS], tf.int32, 0, 1, name="mask")
        spec = ts.time_step_spec((inner.time_step_spec().observation.state, mask))
        super().__init__(spec, inner.action_spec(), inner.batch_size)

    def _convert(self, inner: ts.TimeStep) -> ts.TimeStep:
        triage = tf.minimum(self._taken, NUM_DECISIONS - 1)
        reward = tf.where(self._taken == Action.ASK, 0.0, tf.gather(inner.reward, triage, batch_dims=1))
        may_ask = tf.cast(~inner.observation.forced, tf.int32)[:, tf.newaxis]
        mask = tf.concat([tf.ones([self.batch_size, NUM_DECISIONS], tf.int32), may_ask], axis=1)
        return ts.TimeStep(
            inner.step_type, tf.where(inner.is_last(), reward, 0.0), inner.discount, (inner.observation.state, mask)
        )

    def _current_time_step(self) -> ts.TimeStep:
        return self._convert(self._inner.current_time_step())

    def _reset(self) -> ts.TimeStep:
        return self._convert(self._inner.reset())

    def _step(self, action: tf.Tensor) -> ts.TimeStep:
        self._taken.assign(action)
        return self._convert(self._inner.step(action))


def build_environment(settings: Settings) -> ScalarRewardEnvironment:
    """Returns the environment; the LAST state is the one in which triage happened, as stock DQN expects."""
    generator = tf.random.Generator.from_seed(settings.seed, alg="philox")
    mode = Mode(training=True, max_questions=settings.max_questions, counterfactual=False)
    return ScalarRewardEnvironment(
        VignetteEnvironment(settings.read_vignettes(), settings.evidence_count, mode, generator)
    )


def build_network(environment: ScalarRewardEnvironment, settings: Settings) -> q_network.QNetwork:
    """Returns a stock network of our network's shape, from states `[B, E]` to Q-values `[B, A]`."""
    state_spec, _ = environment.observation_spec()
    return q_network.QNetwork(
        state_spec,
        environment.action_spec(),
        fc_layer_params=settings.hidden_sizes,
    )


def build_agent(
    environment: ScalarRewardEnvironment, settings: Settings, network: q_network.QNetwork
) -> dqn_agent.DqnAgent:
    """Returns a stock agent."""
    agent = dqn_agent.DqnAgent(
        environment.time_step_spec(),
        environment.action_spec(),
        q_network=network,
        optimizer=tf.compat.v1.train.AdamOptimizer(settings.learning_rate),
        observation_and_action_constraint_splitter=lambda observation: observation,
        target_update_period=TARGET_UPDATE_PERIOD,
        td_errors_loss_fn=common.element_wise_squared_loss,
        train_step_counter=tf.Variable(0, dtype=tf.int64),
    )
    agent.initialize()
    return agent


def learner_of(settings: Settings) -> tuple[q_network.QNetwork, Callable[[int], Any]]:
    """Returns the network, and what takes training steps after the burn-in."""
    tf.random.set_seed(settings.seed)
    environment = build_environment(settings)
    network = build_network(environment, settings)
    agent = build_agent(environment, settings, network)
    memory = tf_uniform_replay_buffer.TFUniformReplayBuffer(
        agent.collect_data_spec, batch_size=1, max_length=settings.memory_capacity
    )

    def driver(steps: int) -> dynamic_step_driver.DynamicStepDriver:
        return dynamic_step_driver.DynamicStepDriver(
            environment, agent.collect_policy, observers=[memory.add_batch], num_steps=steps
        )

    common.function(driver(settings.burn_in_steps).run)()
    dataset = memory.as_dataset(sample_batch_size=settings.batch_size, num_steps=2, num_parallel_calls=2)
    batches, one_step = iter(dataset.prefetch(PREFETCHED)), driver(1)

    @tf.function
    def graph(steps: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(steps):
            one_step.run()
            experience, _ = next(batches)
            agent.train(experience)
        return agent.train_step_counter.read_value()

    return network, lambda steps: int(graph(tf.constant(steps)))

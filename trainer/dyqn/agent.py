"""The DyQN agent: a `TFAgent` that learns from counterfactual rewards (paper, section "Dynamic Q-Learning")."""

from typing import NamedTuple

import keras
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from trainer.config import OptimiserConfig, TrainConfig
from trainer.dyqn import targets
from trainer.dyqn.policy import QPolicy, noise_scale
from trainer.dyqn.targets import Transition
from trainer.dyqn.workers import ALONE, Workers


class LossExtra(NamedTuple):
    """What a train step tells beside the loss."""

    action_losses: tf.Tensor  # float32 [A], mean squared TD error of each action
    finite: tf.Tensor  # bool scalar; when False the step changed nothing


def build_optimizer(config: OptimiserConfig) -> keras.optimizers.Optimizer:
    """Returns a fresh optimiser; its weight decay spares the biases."""
    kinds = {"adam": keras.optimizers.Adam, "sgd": keras.optimizers.SGD}
    optimizer = kinds[config.algorithm](config.learning_rate, weight_decay=config.weight_decay or None)
    if config.weight_decay:
        optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


class DyqnAgent(tf_agent.TFAgent):
    """Q_theta with its policies and its update.

    `policy` is greedy. `collect_policy` adds the decaying noise to Q(s, ask); its info is the Q-values.
    `train(experience)` takes a `Transition` batch, as `training_data_spec` says, and performs one optimisation.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        network: keras.Model,
        config: TrainConfig,
        generator: tf.random.Generator,
        workers: Workers = ALONE,
    ):
        """Makes the agent.

        Args:
            time_step_spec: of the vignette environment.
            action_spec: of the vignette environment.
            network: Q_theta, see `trainer.dyqn.network`.
            config: targets, exploration and optimiser.
            generator: of the exploration noise.
            workers: that learn together, each from a batch of its own; the weights of all are equal before a step.
        """
        self._workers = workers
        self.network = network
        self.optimizer = build_optimizer(config.optimiser)
        self.optimizer.build(network.trainable_variables)
        self.episode = tf.Variable(0, dtype=tf.int64, name="episode")
        self._target_config = config.target
        exploration = config.exploration

        def ask_noise(shape: tf.Tensor) -> tf.Tensor:
            scale = noise_scale(
                self.episode,
                exploration.ask_noise_initial,
                exploration.ask_noise_final,
                exploration.ask_noise_episodes,
            )
            return generator.normal(shape) * scale

        observation = time_step_spec.observation
        super().__init__(
            time_step_spec,
            action_spec,
            policy=QPolicy(time_step_spec, action_spec, network),
            collect_policy=QPolicy(time_step_spec, action_spec, network, ask_noise),
            train_sequence_length=None,
            num_outer_dims=1,
            training_data_spec=Transition(observation.state, action_spec, time_step_spec.reward, observation.state),
            train_step_counter=tf.Variable(0, dtype=tf.int64, name="train_step"),
        )

    def _loss(
        self, experience: Transition, weights: tf.Tensor | None = None, training: bool = False
    ) -> tf_agent.LossInfo:
        q_tm1 = self.network(experience.s_tm1, training=training)  # [B, A]
        q_t = self.network(experience.s_t, training=False)
        target = targets.td_targets(q_tm1, q_t, experience.r_t, self._target_config)
        mask = targets.loss_weights(experience.a_tm1, self._target_config)
        if weights is not None:
            mask *= tf.reshape(weights, [-1, 1])
        action_losses = targets.vector_loss(q_tm1, target, mask)
        loss = tf.reduce_sum(action_losses)
        return tf_agent.LossInfo(loss, LossExtra(action_losses, tf.math.is_finite(loss)))

    def _train(self, experience: Transition, weights: tf.Tensor | None = None) -> tf_agent.LossInfo:
        variables = self.network.trainable_variables
        with tf.GradientTape() as tape:
            info = self._loss(experience, weights, training=True)
        gradients = tape.gradient(info.loss, [variable.value for variable in variables])
        # The mean over the batches of all workers, so that all judge and update alike.
        action_losses, *gradients = self._workers.mean([info.extra.action_losses, *gradients])
        loss = tf.reduce_sum(action_losses)
        finite = tf.math.is_finite(loss) & tf.math.is_finite(tf.linalg.global_norm(gradients))

        def update() -> tf.Operation:
            self.optimizer.apply(gradients, variables)
            self.train_step_counter.assign_add(1)
            return tf.no_op()

        tf.cond(finite, update, tf.no_op)
        return tf_agent.LossInfo(loss, LossExtra(action_losses, finite))

"""The DyQN agent: a `TFAgent` that learns from counterfactual rewards (paper, section "Dynamic Q-Learning")."""

from typing import NamedTuple

import keras
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from schemas.triage import NUM_ACTIONS
from trainer.config import OptimiserConfig, TrainConfig
from trainer.dyqn import targets
from trainer.dyqn.network import logits_of
from trainer.dyqn.policy import QPolicy, noise_scale
from trainer.dyqn.targets import Transition
from trainer.dyqn.workers import ALONE, Workers


class LossExtra(NamedTuple):
    """What a train step tells beside the loss."""

    action_losses: tf.Tensor  # float32 [A] or [O], mean loss of each output
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
        self._dropout = max(config.network.dropout, config.network.evidence_dropout) > 0
        self._logits = logits_of(network)
        gradients = self._gradients_of
        self._gradients = tf.function(gradients, jit_compile=True) if config.learner.engine == "compiled" else gradients
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
        logits_tm1 = self._logits(experience.s_tm1, training=training)  # [B, N, O]
        # A target is what the network says of s without dropout.
        clean = self._logits(experience.s_tm1) if training and self._dropout else logits_tm1
        action_losses = self._member_losses(logits_tm1, clean, self._logits(experience.s_t), experience, weights)
        loss = tf.reduce_sum(action_losses)
        return tf_agent.LossInfo(loss, LossExtra(action_losses, tf.math.is_finite(loss)))

    def _member_losses(
        self,
        logits_tm1: tf.Tensor,
        clean_tm1: tf.Tensor,
        logits_t: tf.Tensor,
        batch: Transition,
        weights: tf.Tensor | None,
    ) -> tf.Tensor:
        """Returns the loss of each output `[O]`, summed over the N networks, which learn apart; logits `[B, N, O]`."""
        members, outputs = logits_tm1.shape[1], logits_tm1.shape[2]

        def flat(values: tf.Tensor) -> tf.Tensor:
            return tf.reshape(values, [-1, outputs])  # [B N, O]

        def each(values: tf.Tensor) -> tf.Tensor:
            return tf.repeat(values, members, axis=0)  # [B N, ...]

        r_t = each(batch.r_t)
        q_tm1, q_t = (tf.sigmoid(flat(logits)[:, :NUM_ACTIONS]) for logits in (clean_tm1, logits_t))
        target = targets.td_targets(q_tm1, q_t, r_t, self._target_config)
        mask = targets.loss_weights(each(batch.a_tm1), self._target_config)
        if outputs > NUM_ACTIONS:
            target = tf.concat([target, targets.probability_targets(r_t)], axis=1)
            mask = tf.concat([mask, tf.ones_like(target[:, NUM_ACTIONS:])], axis=1)
        if weights is not None:
            mask *= each(tf.reshape(weights, [-1, 1]))
        if self._target_config.loss == "cross_entropy":
            losses = targets.cross_entropy_loss(flat(logits_tm1), target, mask)
        else:
            losses = targets.vector_loss(tf.sigmoid(flat(logits_tm1)), target, mask)
        return losses * members

    def _train(self, experience: Transition, weights: tf.Tensor | None = None) -> tf_agent.LossInfo:
        variables = self.network.trainable_variables
        action_losses, *gradients = self._gradients(experience, weights)
        # The mean over the batches of all workers, so that all judge and update alike.
        action_losses, *gradients = self._workers.mean([action_losses, *gradients])
        loss = tf.reduce_sum(action_losses)
        finite = tf.math.is_finite(loss) & tf.math.is_finite(tf.linalg.global_norm(gradients))

        def update() -> tf.Operation:
            self.optimizer.apply(gradients, variables)
            self.train_step_counter.assign_add(1)
            return tf.no_op()

        tf.cond(finite, update, tf.no_op)
        return tf_agent.LossInfo(loss, LossExtra(action_losses, finite))

    def _gradients_of(self, experience: Transition, weights: tf.Tensor | None) -> list[tf.Tensor]:
        """Returns the losses of the outputs, then the gradient of their sum by each trainable variable."""
        with tf.GradientTape() as tape:
            info = self._loss(experience, weights, training=True)
        variables = [variable.value for variable in self.network.trainable_variables]
        return [info.extra.action_losses, *tape.gradient(info.loss, variables)]

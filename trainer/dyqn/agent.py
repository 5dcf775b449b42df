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
from trainer.dyqn.network import WITH_PROBABILITIES, build_network, copy_weights, logits_of
from trainer.dyqn.policy import QPolicy, noise_scale
from trainer.dyqn.targets import Transition
from trainer.dyqn.workers import ALONE, Workers


class LossExtra(NamedTuple):
    """What a train step returns beside the loss."""

    action_losses: tf.Tensor  # float32 [A], or [O + 1]: mean loss of each output, then that of single decisions
    finite: tf.Tensor  # bool scalar; when False the step changed nothing


def build_optimizer(config: OptimiserConfig) -> keras.optimizers.Optimizer:
    """Returns a new optimiser; biases have no weight decay."""
    kinds = {"adam": keras.optimizers.Adam, "sgd": keras.optimizers.SGD}
    optimizer = kinds[config.algorithm](
        config.learning_rate,
        weight_decay=config.weight_decay or None,
        use_ema=config.average > 0,
        ema_momentum=config.average,
    )
    if config.weight_decay:
        optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


class DyqnAgent(tf_agent.TFAgent):
    """Q_theta with its policies and its update.

    `policy` is greedy. `collect_policy` adds the decaying noise to Q(s, ask); its info is the Q-values.
    `train(experience)` takes a batch of `Transition` as in `training_data_spec`, and performs one optimisation.
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
            workers: that train together, each on its own batch; before a step, all have the same weights.
        """
        self._workers = workers
        self.network = network
        self.optimizer = build_optimizer(config.optimiser)
        self.optimizer.build(network.trainable_variables)
        self._averaged = None
        if config.optimiser.average:
            self._averaged = build_network(network.input_shape[-1], config.network, seed=0)
        self.episode = tf.Variable(0, dtype=tf.int64, name="episode")
        self._target_config = config.target
        self._parts = config.validation.parts
        self._dropout = config.network.dropout > 0
        self._logits = logits_of(network)
        self._gradients = tf.function(self._gradients_of, jit_compile=True, autograph=False)
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
            training_data_spec=Transition(
                observation.state, action_spec, time_step_spec.reward, observation.state, tf.TensorSpec([], tf.int32)
            ),
            train_step_counter=tf.Variable(0, dtype=tf.int64, name="train_step"),
        )

    @property
    def losses(self) -> int:
        """Number of losses that a train step reports."""
        outputs = self.network.output_shape[-1]
        return outputs + (outputs > NUM_ACTIONS)

    def copy_weights_to(self, network: keras.Model) -> None:
        """Copies the agent's weights, or their moving average if one is configured, to another network."""
        source = self.network
        if self._averaged is not None and int(self.optimizer.iterations):
            source = self._averaged
            source.set_weights(self.network.get_weights())
            self.optimizer.finalize_variable_values(source.trainable_variables)
        copy_weights(source, network)

    def _loss(
        self, experience: Transition, weights: tf.Tensor | None = None, training: bool = False
    ) -> tf_agent.LossInfo:
        logits_tm1 = self._logits(experience.s_tm1, training=training)  # [B, N, L]
        # Targets are computed without dropout.
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
        """Returns the loss of each output, summed over N networks that learn independently; logits `[B, N, L]`."""
        members, width = logits_tm1.shape[1], logits_tm1.shape[2]

        def flat(values: tf.Tensor) -> tf.Tensor:
            return tf.reshape(values, [-1, width])  # [B N, L]

        def each(values: tf.Tensor) -> tf.Tensor:
            return tf.repeat(values, members, axis=0)  # [B N, ...]

        r_t = each(batch.r_t)
        q_tm1, q_t = (tf.sigmoid(flat(logits)[:, :NUM_ACTIONS]) for logits in (clean_tm1, logits_t))
        target = targets.td_targets(q_tm1, q_t, r_t, self._target_config)
        mask = targets.loss_weights(each(batch.a_tm1), self._target_config)
        rows = targets.learned_by(batch.part, members, self._parts)
        if weights is not None:
            rows *= tf.reshape(weights, [-1, 1])
        rows = tf.reshape(rows, [-1, 1])  # [B N, 1]
        if width > NUM_ACTIONS:
            target = tf.concat([target, targets.probability_targets(r_t)], axis=1)
            mask = tf.concat([mask, tf.ones_like(target[:, NUM_ACTIONS:])], axis=1)
        learned = flat(logits_tm1)[:, : target.shape[1]]
        if self._target_config.loss == "cross_entropy":
            losses = targets.cross_entropy_loss(learned, target, mask * rows)
        else:
            losses = targets.vector_loss(tf.sigmoid(learned), target, mask * rows)
        if width > NUM_ACTIONS:
            single = targets.single_decision_loss(flat(logits_tm1)[:, WITH_PROBABILITIES:], r_t, rows)
            losses = tf.concat([losses, [single]], axis=0)
        return losses * members

    def _train(self, experience: Transition, weights: tf.Tensor | None = None) -> tf_agent.LossInfo:
        variables = self.network.trainable_variables
        action_losses, *gradients = self._gradients(experience, weights)
        # Means over the batches of all workers, so that every worker makes the same update.
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
        """Returns the losses of the outputs, then the gradient of their sum for each trainable variable."""
        with tf.GradientTape() as tape:
            info = self._loss(experience, weights, training=True)
        variables = [variable.value for variable in self.network.trainable_variables]
        return [info.extra.action_losses, *tape.gradient(info.loss, variables)]

"""The DyQN agent: a `TFAgent` that learns from counterfactual rewards (paper, section "Dynamic Q-Learning")."""

from typing import NamedTuple

import keras
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from trainer.config import TrainConfig
from trainer.dyqn.environment import action_spec, time_step_spec
from trainer.dyqn.losses import Logits, LossFn, dyqn_loss
from trainer.dyqn.network import logits_of
from trainer.dyqn.policy import AskNoise, QPolicy
from trainer.dyqn.targets import Transition
from trainer.dyqn.workers import ALONE, Workers

WARM_UP, LEAST_RATE = 0.05, 0.02
"""For the schedule `cosine`: share of the steps that warm up, and share of the rate that is left at the end."""


class LossExtra(NamedTuple):
    """What a training step returns beside the loss."""

    losses: tf.Tensor  # float32 [L]: mean loss of each logit
    finite: tf.Tensor  # bool scalar; when False the step changed nothing


class DyqnAgent(tf_agent.TFAgent):
    """Q_theta with its policies and its update.

    `policy` is greedy. `collect_policy` adds noise to Q(s, ask); without noise it is `policy`, and collects nothing:
    interviews ask questions of their own. The info of both is the Q-values. `train(experience)` takes a batch of
    `Transition` as in `training_data_spec`, and performs one optimisation, compiled by XLA. Each of several `workers`
    trains on its own batch; before a step, all have the same weights.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        network: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        loss: LossFn,
        ask_noise: AskNoise | None = None,
        workers: Workers = ALONE,
    ):
        self.network = network
        self.optimizer = optimizer
        self.optimizer.build(network.trainable_variables)
        self._losses = loss
        self._workers = workers
        self._logits = logits_of(network)
        self._drops_out = any(isinstance(layer, keras.layers.Dropout) for layer in network.layers)
        self._compiled = tf.function(self._gradients, jit_compile=True, autograph=False)
        state = time_step_spec.observation.state
        policy = QPolicy(time_step_spec, action_spec, network)
        super().__init__(
            time_step_spec,
            action_spec,
            policy=policy,
            collect_policy=QPolicy(time_step_spec, action_spec, network, ask_noise) if ask_noise else policy,
            train_sequence_length=None,
            num_outer_dims=1,
            training_data_spec=Transition(state, action_spec, time_step_spec.reward, state, tf.TensorSpec([], tf.bool)),
            train_step_counter=tf.Variable(0, dtype=tf.int64, name="train_step"),
        )

    def _train(self, experience: Transition, weights: tf.Tensor | None = None) -> tf_agent.LossInfo:
        """One optimisation, which changes nothing if its result is not finite."""
        variables = self.network.trainable_variables
        losses, *gradients = self._compiled(experience, weights)
        # Means over the batches of all workers, so that every worker makes the same update.
        losses, *gradients = self._workers.mean([losses, *gradients])
        loss = tf.reduce_sum(losses)
        finite = tf.math.is_finite(loss) & tf.math.is_finite(tf.linalg.global_norm(gradients))

        def update() -> tf.Operation:
            self.optimizer.apply(gradients, variables)
            self.train_step_counter.assign_add(1)
            return tf.no_op()

        tf.cond(finite, update, tf.no_op)
        return tf_agent.LossInfo(loss, LossExtra(losses, finite))

    def _gradients(self, experience: Transition, weights: tf.Tensor | None) -> list[tf.Tensor]:
        """Returns the losses of the logits, then the gradient of their sum for each trainable variable."""
        with tf.GradientTape() as tape:
            losses = self._losses(self._batch_logits(experience, training=True), experience, weights)
            loss = tf.reduce_sum(losses)
        variables = [variable.value for variable in self.network.trainable_variables]
        gradients = tape.gradient(loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return [losses, *gradients]

    def _loss(
        self, experience: Transition, weights: tf.Tensor | None = None, training: bool = False
    ) -> tf_agent.LossInfo:
        losses = self._losses(self._batch_logits(experience, training), experience, weights)
        loss = tf.reduce_sum(losses)
        return tf_agent.LossInfo(loss, LossExtra(losses, tf.math.is_finite(loss)))

    def _batch_logits(self, experience: Transition, training: bool) -> Logits:
        learned_tm1 = self._logits(experience.s_tm1, training=training)  # [B, N, L]
        # Targets are computed without dropout.
        tm1 = self._logits(experience.s_tm1) if training and self._drops_out else learned_tm1
        return Logits(learned_tm1, tm1, self._logits(experience.s_t))

    def copy_weights_to(self, network: keras.Model) -> None:
        """Copies the agent's weights, or their moving average if the optimiser keeps one, to another network."""
        if not (self.optimizer.use_ema and int(self.optimizer.iterations)):
            network.set_weights(self.network.get_weights())
            return
        latest = self.network.get_weights()
        self.optimizer.finalize_variable_values(self.network.trainable_variables)
        network.set_weights(self.network.get_weights())
        self.network.set_weights(latest)


def build_agent(
    network: keras.Model, config: TrainConfig, ask_noise: AskNoise | None = None, workers: Workers = ALONE
) -> DyqnAgent:
    """Returns the agent with the configured optimiser and loss, for states as wide as the network's."""
    return DyqnAgent(
        time_step_spec(network.input_shape[-1]),
        action_spec(),
        network,
        build_optimizer(config),
        dyqn_loss(network, config.target),
        ask_noise,
        workers,
    )


def build_optimizer(config: TrainConfig) -> keras.optimizers.Optimizer:
    """Returns a new optimiser for the steps of a run that learn."""
    optimiser, loop = config.optimiser, config.loop
    kinds = {"adam": keras.optimizers.Adam, "sgd": keras.optimizers.SGD}
    rate = optimiser.learning_rate
    if optimiser.schedule == "cosine":
        steps = max(loop.steps - loop.burn_in_steps, 1)
        warm_up = max(round(WARM_UP * steps), 1)
        rate = keras.optimizers.schedules.CosineDecay(
            0.0, max(steps - warm_up, 1), alpha=LEAST_RATE, warmup_target=rate, warmup_steps=warm_up
        )
    return kinds[optimiser.algorithm](rate, use_ema=optimiser.average > 0, ema_momentum=optimiser.average)

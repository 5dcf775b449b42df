"""The DyQN agent: a `TFAgent` that learns from counterfactual rewards (paper, section "Dynamic Q-Learning")."""

from typing import NamedTuple

import keras
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from schemas.triage import NUM_ACTIONS
from trainer.config import OptimiserConfig, TrainConfig
from trainer.dyqn.environment import Imagine, action_spec, time_step_spec
from trainer.dyqn.losses import Logits, LossFn, coherence_loss, dyqn_loss
from trainer.dyqn.network import LEARNED_OUTPUTS, WITH_PROBABILITIES, copy_weights, logits_of
from trainer.dyqn.policy import AskNoise, QPolicy
from trainer.dyqn.targets import Transition
from trainer.dyqn.workers import ALONE, Workers
from trainer.graph.questions import Imagined

IMAGINED = 128
"""Number of states of a batch, at most, in which a question is imagined: it takes two more passes."""


class LossExtra(NamedTuple):
    """What a train step returns beside the loss."""

    action_losses: tf.Tensor  # float32 [A], or [O + 1]: mean loss of each output, then that of single decisions
    finite: tf.Tensor  # bool scalar; when False the step changed nothing


class DyqnAgent(tf_agent.TFAgent):
    """Q_theta with its policies and its update.

    `policy` is greedy. `collect_policy` adds noise to Q(s, ask); its info is the Q-values. `train(experience)` takes a
    batch of `Transition` as in `training_data_spec`, and performs one optimisation, compiled by XLA.

    An agent that can `imagine` questions also learns that its probabilities before a question are the mean of those
    after it. That is no part of `loss`.
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
        imagine: Imagine | None = None,
    ):
        """Makes the agent.

        Args:
            time_step_spec: of the environment.
            action_spec: of the environment.
            network: Q_theta, see `trainer.dyqn.network`.
            optimizer: a new one.
            loss: of a batch, see `trainer.dyqn.losses`.
            ask_noise: of the collect policy, if any.
            workers: that train together, each on its own batch; before a step, all have the same weights.
            imagine: questions, for a network with probabilities; None for none.
        """
        self._imagine = imagine
        self.network = network
        self.optimizer = optimizer
        self.optimizer.build(network.trainable_variables)
        self._losses = loss
        self._workers = workers
        self._logits = logits_of(network)
        self._drops_out = any(isinstance(layer, keras.layers.Dropout) for layer in network.layers)
        self._compiled = tf.function(self._gradients, jit_compile=True, autograph=False)
        state = time_step_spec.observation.state
        super().__init__(
            time_step_spec,
            action_spec,
            policy=QPolicy(time_step_spec, action_spec, network),
            collect_policy=QPolicy(time_step_spec, action_spec, network, ask_noise),
            train_sequence_length=None,
            num_outer_dims=1,
            training_data_spec=Transition(state, action_spec, time_step_spec.reward, state),
            train_step_counter=tf.Variable(0, dtype=tf.int64, name="train_step"),
        )

    @property
    def losses(self) -> int:
        """Number of losses that a train step reports: of what is learned, then that of single decisions, if any."""
        return NUM_ACTIONS if self.network.output_shape[-1] == NUM_ACTIONS else LEARNED_OUTPUTS + 1

    def _train(self, experience: Transition, weights: tf.Tensor | None = None) -> tf_agent.LossInfo:
        """One optimisation, which changes nothing if it is not finite."""
        variables = self.network.trainable_variables
        imagined = None if self._imagine is None else self._imagine(experience.s_tm1[:IMAGINED])
        action_losses, *gradients = self._compiled(experience, weights, imagined)
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

    def _gradients(
        self, experience: Transition, weights: tf.Tensor | None, imagined: Imagined | None
    ) -> list[tf.Tensor]:
        """Returns the losses of the outputs, then the gradient of all that is learned for each trainable variable."""
        with tf.GradientTape() as tape:
            logits = self._batch_logits(experience, training=True)
            action_losses = self._losses(logits, experience, weights)
            loss = tf.reduce_sum(action_losses)
            if imagined is not None:
                loss += self._incoherence(experience.s_tm1[:IMAGINED], logits.tm1[:IMAGINED], imagined)
        variables = [variable.value for variable in self.network.trainable_variables]
        return [action_losses, *tape.gradient(loss, variables)]

    def _incoherence(self, states: tf.Tensor, logits: tf.Tensor, imagined: Imagined) -> tf.Tensor:
        """Returns `coherence_loss` of questions in `states` `[B, E]`, in which the networks give `logits`."""
        probabilities = slice(NUM_ACTIONS, WITH_PROBABILITIES)
        answered = tf.concat([states + imagined.change, states - imagined.change], axis=0)
        after = tf.split(self._logits(answered, training=True)[:, :, probabilities], 2)
        before = tf.sigmoid(tf.reduce_mean(logits[:, :, probabilities], axis=1))
        return coherence_loss(tf.stack(after), imagined.likely, before)

    def _loss(
        self, experience: Transition, weights: tf.Tensor | None = None, training: bool = False
    ) -> tf_agent.LossInfo:
        action_losses = self._losses(self._batch_logits(experience, training), experience, weights)
        loss = tf.reduce_sum(action_losses)
        return tf_agent.LossInfo(loss, LossExtra(action_losses, tf.math.is_finite(loss)))

    def _batch_logits(self, experience: Transition, training: bool) -> Logits:
        learned_tm1 = self._logits(experience.s_tm1, training=training)  # [B, N, L]
        # Targets are computed without dropout.
        tm1 = self._logits(experience.s_tm1) if training and self._drops_out else learned_tm1
        return Logits(learned_tm1, tm1, self._logits(experience.s_t))

    def copy_weights_to(self, network: keras.Model) -> None:
        """Copies the agent's weights, or their moving average if the optimiser keeps one, to another network."""
        if not (self.optimizer.use_ema and int(self.optimizer.iterations)):
            copy_weights(self.network, network)
            return
        latest = self.network.get_weights()
        self.optimizer.finalize_variable_values(self.network.trainable_variables)
        copy_weights(self.network, network)
        self.network.set_weights(latest)


def build_agent(
    network: keras.Model,
    config: TrainConfig,
    ask_noise: AskNoise | None = None,
    workers: Workers = ALONE,
    imagine: Imagine | None = None,
) -> DyqnAgent:
    """Returns the agent with the configured optimiser and loss, for states as wide as the network's."""
    return DyqnAgent(
        time_step_spec(network.input_shape[-1]),
        action_spec(),
        network,
        build_optimizer(config.optimiser),
        dyqn_loss(config.target),
        ask_noise,
        workers,
        imagine,
    )


def build_optimizer(config: OptimiserConfig) -> keras.optimizers.Optimizer:
    """Returns a new optimiser."""
    kinds = {"adam": keras.optimizers.Adam, "sgd": keras.optimizers.SGD}
    return kinds[config.algorithm](config.learning_rate, use_ema=config.average > 0, ema_momentum=config.average)

"""The policies of the agent: greedy, and greedy with Gaussian noise on Q(s, ask) (paper, section "The Agent")."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts

from schemas.triage import Action
from trainer.config import ExplorationConfig
from trainer.graph.decide import NEUTRAL, OperatingPoint, anything_known, best_triage, decide
from trainer.graph.rules import RuleGraph

AskNoise = Callable[[tf.Tensor], tf.Tensor]
"""Returns float32 noise of a shape, int32 `[1]`."""


class QPolicy(tf_policy.TFPolicy):
    """Takes the action that `trainer.graph.decide` chooses, or a triage decision if the observation forces one.

    It obeys `rules`, if any. The policy's info is the network's outputs, without noise.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        network: keras.Model,
        ask_noise: AskNoise | None = None,
        rules: RuleGraph | None = None,
        point: OperatingPoint = NEUTRAL,
    ):
        self._network = network
        self._rules = rules
        self._point = point
        self._ask_noise = ask_noise
        info_spec = {
            head: tensor_spec.BoundedTensorSpec(values.shape[1:], tf.float32, 0.0, 1.0, name=head)
            for head, values in network.output.items()
        }
        super().__init__(time_step_spec, action_spec, info_spec=info_spec, name="q_policy")

    def _variables(self) -> Sequence[tf.Variable]:
        return [variable.value for variable in self._network.variables]

    def _action(self, time_step: ts.TimeStep, policy_state: Any, seed: Any = None) -> policy_step.PolicyStep:
        states, forced = time_step.observation.state, time_step.observation.forced
        heads = self._network(states)
        return policy_step.PolicyStep(self.choose(heads["q"], forced, states), policy_state, heads)

    def choose(self, q: tf.Tensor, forced: tf.Tensor, states: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the actions int32 `[B]` for Q-values `[B, A]`; rows `forced`, bool `[B]`, must not ask.

        Without `states` `[B, E]`, something must be known in every row, as in training, and rules are not applied.
        """
        noisy = q if self._ask_noise is None else add_ask_noise(q, self._ask_noise)
        known = tf.ones_like(forced) if states is None else anything_known(states)
        action = decide(noisy, forced, known, self._point)
        if self._rules is not None and states is not None:
            action = self._rules.apply(self._rules.fired(states), action, best_triage(noisy)).action
        return action


def add_ask_noise(q: tf.Tensor, ask_noise: AskNoise) -> tf.Tensor:
    """Returns Q-values `[B, A]` with noise added to that of `ask`."""
    noise = ask_noise(tf.shape(q)[:1])[:, tf.newaxis]  # [B, 1]
    return q + noise * tf.one_hot(Action.ASK, q.shape[-1])


class DecayingNoise:
    """The noise of training, whose scale falls with the number of episodes."""

    def __init__(self, config: ExplorationConfig, generator: tf.random.Generator):
        self._config = config
        self._generator = generator
        self.episode = tf.Variable(0, dtype=tf.int64, name="episode")  # number of episodes finished so far

    @property
    def scale(self) -> tf.Tensor:
        """float32 scalar, see `noise_scale`."""
        return noise_scale(self.episode, self._config)

    def __call__(self, shape: tf.Tensor) -> tf.Tensor:
        """Returns noise float32 of `shape`, int32 `[1]`."""
        return self._generator.normal(shape) * self.scale


def noise_scale(episode: tf.Tensor, config: ExplorationConfig) -> tf.Tensor:
    """Returns sigma(i), the standard deviation of the noise in episode `episode` (int64 scalar, 0 for the first).

    It falls linearly over the first `ask_noise_episodes` episodes, then stays as it is.
    """
    initial, final = config.ask_noise_initial, config.ask_noise_final
    progress = tf.clip_by_value(tf.cast(episode, tf.float32) / config.ask_noise_episodes, 0.0, 1.0)
    return initial + (final - initial) * progress

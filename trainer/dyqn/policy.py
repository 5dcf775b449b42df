"""The policies of the agent: greedy, and greedy with Gaussian noise on Q(s, ask) (paper, section "The Agent")."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts

from schemas.triage import NUM_ACTIONS, Action
from trainer.dyqn.decision import anything_known, best_triage, decide
from trainer.safeguards.rules import RuleGraph

AskNoise = Callable[[tf.Tensor], tf.Tensor]
"""From a shape `[1]` int32 to float32 noise of that shape."""


class QPolicy(tf_policy.TFPolicy):
    """Takes the action of the highest Q-value; where the observation forces a triage, the best triage decision.

    With rules it obeys them. The policy's info is the Q-values `[B, A]` without noise.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        network: keras.Model,
        ask_noise: AskNoise | None = None,
        rules: RuleGraph | None = None,
    ):
        self._network = network
        self._rules = rules
        self._ask_noise = ask_noise
        info_spec = tensor_spec.BoundedTensorSpec([NUM_ACTIONS], tf.float32, 0.0, 1.0, name="q_values")
        super().__init__(time_step_spec, action_spec, info_spec=info_spec, name="q_policy")

    def _variables(self) -> Sequence[tf.Variable]:
        return [variable.value for variable in self._network.variables]

    def _action(self, time_step: ts.TimeStep, policy_state: Any, seed: Any = None) -> policy_step.PolicyStep:
        del seed  # randomness comes from the generator behind the noise
        states, forced = time_step.observation.state, time_step.observation.forced
        q_values = self._network(states)  # [B, A]
        return policy_step.PolicyStep(self.choose(q_values, forced, states), policy_state, q_values)

    def choose(self, q_values: tf.Tensor, forced: tf.Tensor, states: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the actions int32 `[B]` for Q-values `[B, A]`, where `forced` bool `[B]` forbids to ask.

        Without `states` `[B, E]` something has to be known in every row, as in training, and rules are not looked at.
        """
        noisy = q_values if self._ask_noise is None else add_ask_noise(q_values, self._ask_noise)
        known = tf.ones_like(forced) if states is None else anything_known(states)
        action = decide(noisy, forced, known)
        if self._rules is not None and states is not None:
            action = self._rules.apply(self._rules.fired(states), action, best_triage(noisy)).action
        return action


def add_ask_noise(q_values: tf.Tensor, ask_noise: AskNoise) -> tf.Tensor:
    """Returns `q_values` `[B, A]` with noise added to the column of `ask` alone."""
    noise = ask_noise(tf.shape(q_values)[:1])[:, tf.newaxis]  # [B, 1]
    return q_values + noise * tf.one_hot(Action.ASK, NUM_ACTIONS)


def noise_scale(episode: tf.Tensor, initial: float, final: float, episodes: int) -> tf.Tensor:
    """Returns sigma(i), the standard deviation of the noise in episode `episode` (int64 scalar, 0 for the first).

    It falls linearly from `initial` to `final` over the first `episodes` episodes, and stays.
    """
    progress = tf.clip_by_value(tf.cast(episode, tf.float32) / episodes, 0.0, 1.0)
    return initial + (final - initial) * progress

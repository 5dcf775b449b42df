"""Episodes in which an agent learns: what each step of training adds to the memory."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import keras
import tensorflow as tf

from schemas.triage import Action
from trainer.config import TargetConfig
from trainer.data import state
from trainer.dyqn import targets
from trainer.dyqn.environment import VignetteEnvironment
from trainer.dyqn.policy import DecayingNoise, QPolicy
from trainer.dyqn.rollout import EpisodeWindow
from trainer.dyqn.targets import Transition

WINDOW = 20
"""Episodes in the sliding window of the training metrics, if no more than these can end in one step."""


class Collected(NamedTuple):
    """One step of B episodes."""

    transition: Transition  # its states are signed codes int32 [B, W]
    priorities: tf.Tensor  # float32 [B]


class Episodes(Protocol):
    """B episodes that run side by side, each followed by another one; all in graph."""

    @property
    def known_limit(self) -> int:
        """W, the largest number of pieces of evidence in a state."""

    @property
    def finished(self) -> tf.Variable:
        """int64 scalar: number of episodes that have ended."""

    @property
    def variables(self) -> Mapping[str, Any]:
        """Everything that changes, except for generators; for checkpoints."""

    def collect(self) -> Collected:
        """Takes a step in each episode."""

    def summary(self) -> dict[str, float]:
        """Returns figures about the latest episodes, by name; those of `trainer.dyqn.rollout.METRICS` if any."""


class OrderedEpisodes:
    """Vignettes read in a random order, in which the agent acts and explores (paper, algo:dyqn, lines 3 to 17).

    Args:
        environment: draws B vignettes and reveals their evidence.
        network: Q_theta, as it learns.
        policy: that acts, with noise on Q(s, ask).
        noise: of the policy; it counts the episodes.
        config: whether `ask` is learned from a stored triage decision.
        known_limit: see `Episodes`; None means the largest vignette.
    """

    def __init__(
        self,
        environment: VignetteEnvironment,
        network: keras.Model,
        policy: QPolicy,
        noise: DecayingNoise,
        config: TargetConfig,
        known_limit: int | None = None,
    ):
        self._environment = environment
        self._network = network
        self._policy = policy
        self._noise = noise
        self._window = EpisodeWindow(max(WINDOW, environment.batch_size))
        self._asked_alone = config.ask_successor == "taken_only"
        width = environment.signed_codes.shape[1]
        self.known_limit = width if known_limit is None else min(width, known_limit)

    @property
    def finished(self) -> tf.Variable:
        """See `Episodes`."""
        return self._noise.episode

    @property
    def variables(self) -> Mapping[str, Any]:
        """See `Episodes`."""
        return {**self._environment.state_variables, "window": self._window}

    def collect(self) -> Collected:
        """See `Episodes`."""
        environment = self._environment
        environment.begin_where_ended()
        s_tm1 = self._known()
        q = self._network(state.from_signed_codes(s_tm1, self._network.input_shape[-1]))["q"]
        action = self._policy.choose(q, environment.forced)
        after = environment.step(action)
        asked = (action == Action.ASK) if self._asked_alone else tf.ones_like(action, tf.bool)
        transition = Transition(s_tm1, action, after.reward, self._known(), asked)
        ended = tf.where(after.is_last())[:, 0]
        self._noise.episode.assign_add(tf.size(ended, tf.int64))
        rows = (action, environment.decision_counts, environment.questions_asked)
        self._window.record(*(tf.gather(row, ended) for row in rows))
        return Collected(transition, targets.priority(q, after.reward))

    def summary(self) -> dict[str, float]:
        """See `Episodes`."""
        return {**self._window.means(), "ask_noise": float(self._noise.scale)}

    def _known(self) -> tf.Tensor:
        return self._environment.signed_codes[:, : self.known_limit]

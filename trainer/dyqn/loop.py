"""The training cycle of the paper (algo:dyqn) as one compiled loop: collect, store, learn, once a step.

The loop returns to Python every few hundred steps. Its state after a given step does not depend on when it returned, so
a run that is resumed from a checkpoint gives the same result as one that was not interrupted.
"""

import zlib
from collections.abc import Mapping
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from schemas.triage import ACTION_LABELS, DECISION_LABELS, Action
from trainer.config import TrainConfig
from trainer.dyqn import targets
from trainer.dyqn.agent import DyqnAgent
from trainer.dyqn.environment import VignetteEnvironment
from trainer.dyqn.network import dropout_states
from trainer.dyqn.policy import DecayingNoise
from trainer.dyqn.replay import BucketMemory
from trainer.dyqn.rollout import EpisodeWindow
from trainer.dyqn.targets import Transition
from trainer.dyqn.validation import Selection
from trainer.dyqn.workers import ALONE, Workers
from trainer.vignettes import state

PROBABILITY_LABELS = tuple(f"{what} {label}" for what in ("appropriate", "safe") for label in DECISION_LABELS)
SINGLE_DECISIONS = "single decisions"


class TrainingDivergedError(RuntimeError):
    """The loss or a gradient was not finite; the message names the step and all values that are not finite."""


class Progress(NamedTuple):
    """The result of one call of the loop."""

    loss: float | None  # mean over the optimisations of the call; None if there was none
    action_losses: dict[str, float]  # mean loss of each action, by label


class TrainingLoop:
    """Trains an agent with its environment and its memory; `trainer.dyqn.assembly` makes all of them.

    Every random draw comes from a generator that is part of the checkpoint.
    """

    def __init__(
        self,
        config: TrainConfig,
        environment: VignetteEnvironment,
        agent: DyqnAgent,
        noise: DecayingNoise,
        memory: BucketMemory,
        selection: Selection,
        generators: Mapping[str, tf.random.Generator],
        workers: Workers = ALONE,
    ):
        """Makes a loop at step 0.

        Args:
            config: of the run.
            environment: the episodes in which the agent learns, over E pieces of evidence.
            agent: that learns.
            noise: of the agent's collect policy; it counts the episodes.
            memory: of the transitions.
            selection: the weights that the run keeps.
            generators: all of them, by name; "memory" is that of the batches.
            workers: that train together.
        """
        self.config = config
        self.environment = environment
        self.agent = agent
        self.memory = memory
        self.selection = selection
        self.window = EpisodeWindow(config.loop.window_episodes)
        self._noise = noise
        self._generators = dict(generators)
        self._workers = workers
        self._step = tf.Variable(0, dtype=tf.int64, name="step")
        self._compiled = tf.function(self._run, autograph=False)

    @property
    def network(self) -> keras.Model:
        """Q_theta, as it learns."""
        return self.agent.network

    @property
    def step(self) -> int:
        """Number of steps (actions of the agent) taken so far."""
        return int(self._step)

    @property
    def episode(self) -> int:
        """Number of episodes finished so far."""
        return int(self._noise.episode)

    @property
    def ask_noise(self) -> float:
        """The standard deviation of the noise on Q(s, ask)."""
        return float(self._noise.scale)

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or the validation loss has not fallen for long enough."""
        return self.step >= self.config.loop.steps or self.selection.exhausted(self.step)

    def fingerprint(self) -> int:
        """Returns a checksum of the weights."""
        checksum = 0
        for weight in self.network.get_weights():
            checksum = zlib.crc32(weight.tobytes(), checksum)
        return checksum

    def checkpoint(self) -> tf.train.Checkpoint:
        """Returns a checkpoint of everything that a resumed run needs."""
        return tf.train.Checkpoint(
            network=self.network,
            dropout=dropout_states(self.network),
            optimizer=self.agent.optimizer,
            train_step=self.agent.train_step_counter,
            episode=self._noise.episode,
            memory=self.memory,
            environment=self.environment.state_variables,
            generators=self._generators,
            window=self.window,
            step=self._step,
            **self.selection.variables(),
        )

    def run(self, until_step: int) -> Progress:
        """Takes steps until `until_step` have been taken.

        Raises:
            TrainingDivergedError: a loss or gradient is not finite. The weights are those before that optimisation.
            LostWorkerError: another worker has ended.
        """
        with self._workers.watched():
            finite, learned, losses = self._compiled(tf.constant(np.asarray(until_step, np.int64)))
        if not finite:
            raise TrainingDivergedError(self._divergence(losses))
        if not learned:
            return Progress(None, {})
        means = (losses / tf.cast(learned, tf.float32)).numpy().tolist()
        return Progress(sum(means), dict(zip(ACTION_LABELS, means, strict=False)))

    def _run(self, until_step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns (finite bool, optimisations done int64, sum of the action losses [A])."""

        def unfinished(finite: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
            return finite & (self._step < until_step)

        def body(finite: tf.Tensor, learned: tf.Tensor, losses: tf.Tensor) -> tuple[tf.Tensor, ...]:
            del finite  # true, or the loop would have ended
            self._collect()
            due = self._step >= self.config.loop.burn_in_steps
            finite, action_losses = tf.cond(due, self._learn, lambda: (tf.constant(True), tf.zeros([count])))
            self._step.assign_add(tf.cast(finite, tf.int64))
            return finite, learned + tf.cast(due, tf.int64), losses + action_losses

        count = self.agent.losses
        start = (tf.constant(True), tf.constant(0, tf.int64), tf.zeros([count]))
        return tf.while_loop(unfinished, body, start, parallel_iterations=1)

    def _collect(self) -> None:
        """One action of the agent in each environment: lines 3 to 17 of the algorithm."""
        self.environment.begin_where_ended()
        s_tm1 = self._known()
        outputs = self.network(self._states(s_tm1))
        forced = self.environment.forced
        action = self.agent.collect_policy.choose(outputs, forced)
        if self.environment.interviewer is not None:
            # All lengths are learned, wherever the agent would stop: rewards and s' are the same for every action.
            action = tf.where(forced, action, int(Action.ASK))
        after = self.environment.step(action)
        transition = Transition(s_tm1, action, after.reward, self._known())
        self.memory.add(transition, targets.priority(outputs, after.reward))
        ended = tf.where(after.is_last())[:, 0]
        self._noise.episode.assign_add(tf.size(ended, tf.int64))
        rows = (action, self.environment.decision_counts, self.environment.questions_asked)
        self.window.record(*(tf.gather(row, ended) for row in rows))

    def _learn(self) -> tuple[tf.Tensor, tf.Tensor]:
        """One optimisation: lines 18 to 21 of the algorithm. Returns (finite, action losses [A])."""
        batch = self.memory.sample(self.config.memory.batch_size, self._generators["memory"])
        batch = batch._replace(s_tm1=self._states(batch.s_tm1), s_t=self._states(batch.s_t))
        done = self.agent.train(batch).extra
        return done.finite, done.action_losses

    def _known(self) -> tf.Tensor:
        """Returns the signed codes int32 `[B, W]` of the environment's state, as the memory keeps them."""
        return self.environment.signed_codes[:, : self.memory.known_limit]

    def _states(self, signed_codes: tf.Tensor) -> tf.Tensor:
        """Returns the states float32 `[B, E]` of signed codes `[B, W]`."""
        return state.from_signed_codes(signed_codes, self.network.input_shape[-1])

    def _divergence(self, losses: tf.Tensor) -> str:
        where = [f"weights {name}" for name in non_finite(self.network.variables)]
        where += [f"optimiser state {name}" for name in non_finite(self.agent.optimizer.variables)]
        if not np.isfinite(losses.numpy()).all():
            labels = (*ACTION_LABELS, *PROBABILITY_LABELS, SINGLE_DECISIONS)
            failed = [label for label, loss in zip(labels, losses.numpy(), strict=False) if not np.isfinite(loss)]
            where.append(f"TD errors of {', '.join(failed)}")
        return f"step {self.step}, episode {self.episode}: not finite: {'; '.join(where) or 'a gradient'}"


def non_finite(variables: list[keras.Variable]) -> list[str]:
    """Returns the paths of the variables that hold a NaN or an infinity."""
    return [
        variable.path
        for variable in variables
        if np.issubdtype(variable.numpy().dtype, np.floating) and not np.isfinite(variable.numpy()).all()
    ]

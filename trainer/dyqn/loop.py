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

from trainer.config import TrainConfig
from trainer.data import state
from trainer.dyqn.agent import DyqnAgent
from trainer.dyqn.calibrate import Selection
from trainer.dyqn.episodes import Episodes
from trainer.dyqn.losses import labels
from trainer.dyqn.network import dropout_states
from trainer.dyqn.replay import BucketMemory
from trainer.dyqn.workers import ALONE, Workers


class TrainingDivergedError(RuntimeError):
    """The loss or a gradient was not finite; the message names the step and all values that are not finite."""


class Progress(NamedTuple):
    """The result of one call of the loop."""

    loss: float | None  # mean over the optimisations of the call; None if there was none
    losses: dict[str, float]  # mean loss of each logit, by label


class TrainingLoop:
    """Trains an agent with its environment and its memory; `trainer.dyqn.assembly` makes all of them.

    Every random draw comes from one of the `generators`, which are part of the checkpoint; "memory" is that of batches.
    """

    def __init__(
        self,
        config: TrainConfig,
        episodes: Episodes,
        agent: DyqnAgent,
        memory: BucketMemory,
        selection: Selection,
        generators: Mapping[str, tf.random.Generator],
        workers: Workers = ALONE,
    ):
        self.config = config
        self.episodes = episodes
        self.agent = agent
        self.memory = memory
        self.selection = selection
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
        return int(self.episodes.finished)

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.step >= self.config.loop.steps

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
            episode=self.episodes.finished,
            memory=self.memory,
            episodes=dict(self.episodes.variables),
            generators=self._generators,
            step=self._step,
            chosen=self.selection.chosen,
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
        return Progress(sum(means), dict(zip(labels(self.network), means, strict=True)))

    def _run(self, until_step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns (finite bool, optimisations done int64, sum of the losses [L])."""

        def unfinished(finite: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
            return finite & (self._step < until_step)

        def body(finite: tf.Tensor, learned: tf.Tensor, losses: tf.Tensor) -> tuple[tf.Tensor, ...]:
            del finite  # true, or the loop would have ended
            tf.cond(self._step % self.config.loop.collect_interval == 0, self._collect, tf.no_op)
            due = self._step >= self.config.loop.burn_in_steps
            finite, losses_of_step = tf.cond(due, self._learn, lambda: (tf.constant(True), tf.zeros([count])))
            self._step.assign_add(tf.cast(finite, tf.int64))
            return finite, learned + tf.cast(due, tf.int64), losses + losses_of_step

        count = len(labels(self.network))
        start = (tf.constant(True), tf.constant(0, tf.int64), tf.zeros([count]))
        return tf.while_loop(unfinished, body, start, parallel_iterations=1)

    def _collect(self) -> tf.Operation:
        """One step of each episode: lines 3 to 17 of the algorithm."""
        self.memory.add(*self.episodes.collect())
        return tf.no_op()

    def _learn(self) -> tuple[tf.Tensor, tf.Tensor]:
        """One optimisation: lines 18 to 21 of the algorithm. Returns (finite, losses [L])."""
        batch = self.memory.sample(self.config.memory.batch_size, self._generators["memory"])
        batch = batch._replace(s_tm1=self._states(batch.s_tm1), s_t=self._states(batch.s_t))
        done = self.agent.train(batch).extra
        return done.finite, done.losses

    def _states(self, signed_codes: tf.Tensor) -> tf.Tensor:
        """Returns the states float32 `[B, E]` of signed codes `[B, W]`."""
        return state.from_signed_codes(signed_codes, self.network.input_shape[-1])

    def _divergence(self, losses: tf.Tensor) -> str:
        where = [f"weights {name}" for name in non_finite(self.network.variables)]
        where += [f"optimiser state {name}" for name in non_finite(self.agent.optimizer.variables)]
        if not np.isfinite(losses.numpy()).all():
            named = zip(labels(self.network), losses.numpy(), strict=True)
            where.append(f"losses of {', '.join(label for label, loss in named if not np.isfinite(loss))}")
        return f"step {self.step}, episode {self.episode}: not finite: {'; '.join(where) or 'a gradient'}"


def non_finite(variables: list[keras.Variable]) -> list[str]:
    """Returns the paths of the variables that hold a NaN or an infinity."""
    return [
        variable.path
        for variable in variables
        if np.issubdtype(variable.numpy().dtype, np.floating) and not np.isfinite(variable.numpy()).all()
    ]

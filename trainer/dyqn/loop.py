"""The training cycle of the paper (algo:dyqn) as one compiled loop: collect, store, learn, once a step.

The loop returns to Python every few hundred steps. What it has done by a given step does not depend on where those
returns fall, so a run that is resumed from a checkpoint repeats the run that was not interrupted.
"""

import zlib
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from schemas.triage import ACTION_LABELS, DECISION_LABELS, NUM_DECISIONS
from trainer.config import TrainConfig
from trainer.dyqn import rewards, targets
from trainer.dyqn.agent import DyqnAgent
from trainer.dyqn.dial import HeldOutOutputs
from trainer.dyqn.environment import Mode, VignetteEnvironment, Vignettes
from trainer.dyqn.learner import build_learner
from trainer.dyqn.network import build_network, dropout_states
from trainer.dyqn.replay import BucketMemory
from trainer.dyqn.targets import Transition
from trainer.dyqn.validation import HeldOut, hold_out
from trainer.dyqn.workers import ALONE, Workers

PROBABILITY_LABELS = tuple(f"{what} {label}" for what in ("appropriate", "safe") for label in DECISION_LABELS)


class TrainingDivergedError(RuntimeError):
    """The loss or a gradient was not finite; the message says at which step, and what else is not."""


class Progress(NamedTuple):
    """What one call of the loop did."""

    loss: float | None  # mean over the optimisations of the call; None where there was none
    action_losses: dict[str, float]  # mean squared TD error of each action, by label


class TrainingLoop:
    """An agent, its environment and its memory, and the steps that they take together.

    Every random draw comes from a generator that is seeded from `config.loop.seed` and is part of the checkpoint. Each
    of several `workers` has an environment, a memory and draws of its own, and all have the same weights.
    """

    def __init__(self, vignettes: Vignettes, evidence_count: int, config: TrainConfig, workers: Workers = ALONE):
        # Op determinism is what makes a resumed run equal to an uninterrupted one, bit for bit on one machine.
        tf.config.experimental.enable_op_determinism()
        self.config = config
        self._workers = workers
        network_seed, generator_seeds = _seeds(config.loop.seed, workers.index)
        self._generators = {
            name: tf.random.Generator.from_seed(seed, alg="philox")
            for name, seed in zip(("environment", "exploration", "memory"), generator_seeds, strict=True)
        }
        limit = config.environment.max_questions
        mode = Mode(
            training=True,
            max_questions=limit,
            counterfactual=config.target.ask_successor != "same_state",
            any_start=config.environment.start == "any",
            epochs=config.environment.draw == "epochs",
        )
        learned, held_out = hold_out(vignettes, config.validation.validation_share, config.loop.seed)
        self._held_out = None if held_out is None else HeldOut(held_out, evidence_count, config.loop.seed)
        self.environment = VignetteEnvironment(
            learned, evidence_count, mode, self._generators["environment"], config.environment.environments
        )
        self.network = build_network(evidence_count, config.network, network_seed)
        self.agent = DyqnAgent(
            self.environment.time_step_spec(),
            self.environment.action_spec(),
            self.network,
            config,
            self._generators["exploration"],
            workers,
        )
        # The first piece of evidence, one more for each question, and one for the successor of the last state.
        self._known_limit = min(int(np.diff(vignettes.offsets).max()), limit + 2)
        self.memory = BucketMemory(evidence_count, self._known_limit, NUM_DECISIONS, config.memory)
        self._learner = build_learner(self.agent, config, workers)
        # What the run leaves behind: the weights that did best on held-out vignettes, or those of the last step.
        self.chosen = self.network if held_out is None else build_network(evidence_count, config.network, seed=0)
        self._best_loss = tf.Variable(np.inf, dtype=tf.float32, name="best_loss")
        self._best_step = tf.Variable(0, dtype=tf.int64, name="best_step")
        self.window = EpisodeWindow(config.loop.window_episodes)
        self._step = tf.Variable(0, dtype=tf.int64, name="step")
        self._compiled = tf.function(self._run, autograph=False)

    @property
    def step(self) -> int:
        """Number of steps (actions of the agent) taken so far."""
        return int(self._step)

    @property
    def episode(self) -> int:
        """Number of episodes finished so far."""
        return int(self.agent.episode)

    @property
    def best_step(self) -> int:
        """The step whose weights did best on held-out vignettes, 0 before the first look."""
        return int(self._best_step)

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or the loss on held-out vignettes has not fallen for long enough."""
        if self.step >= self.config.loop.steps:
            return True
        validation = self.config.validation
        waited = self.step - max(self.best_step, self._first_choice)
        return self.holds_out and waited >= validation.patience * validation.validation_interval

    @property
    def _first_choice(self) -> int:
        """The first step whose weights may be chosen: half-way, as rare decisions are learned last."""
        loop = self.config.loop
        return loop.burn_in_steps + max(loop.steps - loop.burn_in_steps, 0) // 2

    @property
    def holds_out(self) -> bool:
        """Whether vignettes are held out of the training."""
        return self._held_out is not None

    def validate(self) -> float | None:
        """Returns the loss on held-out vignettes; None without any.

        From half of the steps on, the weights with the lowest loss are chosen. Earlier the loss may be lower, but a
        network that knows nothing of a rare decision such as Red has a low loss too.
        """
        if self._held_out is None:
            return None
        loss = self._held_out.loss(self.network)
        if self.step >= self._first_choice and loss < float(self._best_loss):
            self._choose(loss)
        return loss

    def _choose(self, loss: float) -> None:
        self.chosen.set_weights(self.network.get_weights())
        self._best_loss.assign(loss)
        self._best_step.assign(self._step)

    def choose_for_now(self) -> None:
        """Has the latest weights stand in for the chosen ones until some are chosen, as a run may end before that."""
        if self.holds_out and not self.best_step:
            self.chosen.set_weights(self.network.get_weights())

    def settle(self) -> HeldOutOutputs | None:
        """Calibrates the chosen weights on held-out vignettes and returns their outputs for those; None without any."""
        if self._held_out is None:
            return None
        if not self.best_step:
            self._choose(self._held_out.loss(self.network))
        return self._held_out.calibrate(self.chosen)

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
            episode=self.agent.episode,
            memory=self.memory,
            environment=self.environment.state_variables,
            generators=self._generators,
            window=self.window,
            step=self._step,
            best_loss=self._best_loss,
            best_step=self._best_step,
            chosen=self.chosen,
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

        def going(finite: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
            return finite & (self._step < until_step)

        def body(finite: tf.Tensor, learned: tf.Tensor, losses: tf.Tensor) -> tuple[tf.Tensor, ...]:
            del finite  # true, or the loop would have ended
            self._collect()
            due = self._step >= self.config.loop.burn_in_steps
            finite, action_losses = tf.cond(due, self._learn, lambda: (tf.constant(True), tf.zeros([outputs])))
            self._step.assign_add(tf.cast(finite, tf.int64))
            return finite, learned + tf.cast(due, tf.int64), losses + action_losses

        outputs = self.network.output_shape[-1]
        self._learner.prepare()
        start = (tf.constant(True), tf.constant(0, tf.int64), tf.zeros([outputs]))
        return tf.while_loop(going, body, start, parallel_iterations=1)

    def _collect(self) -> None:
        """One action of the agent in each environment: lines 3 to 17 of the algorithm."""
        self.environment.begin_where_ended()
        s_tm1 = self._known()
        outputs = self._learner.q_values(s_tm1)
        forced = self.environment.current_time_step().observation.forced
        action = self.agent.collect_policy.choose(outputs, forced)
        after = self.environment.step(action)
        self.memory.add(Transition(s_tm1, action, after.reward, self._known()), targets.priority(outputs, after.reward))
        ended = tf.where(after.is_last())[:, 0]
        self.agent.episode.assign_add(tf.size(ended, tf.int64))
        rows = (action, self.environment.decision_counts, self.environment.questions_asked)
        self.window.record(*(tf.gather(row, ended) for row in rows))

    def _known(self) -> tf.Tensor:
        """Returns the signed codes int32 `[B, W]` of the environment's state, as the memory keeps them."""
        return self.environment.signed_codes[:, : self._known_limit]

    def _learn(self) -> tuple[tf.Tensor, tf.Tensor]:
        """One optimisation: lines 18 to 21 of the algorithm. Returns (finite, action losses [A])."""
        batch = self.memory.sample(self.config.memory.batch_size, self._generators["memory"])
        done = self._learner.learn(batch)
        return done.finite, done.action_losses

    def _divergence(self, losses: tf.Tensor) -> str:
        where = [f"weights {name}" for name in non_finite(self.network.variables)]
        where += [f"optimiser state {name}" for name in non_finite(self.agent.optimizer.variables)]
        if not np.isfinite(losses.numpy()).all():
            labels = (*ACTION_LABELS, *PROBABILITY_LABELS)
            failed = [label for label, loss in zip(labels, losses.numpy(), strict=False) if not np.isfinite(loss)]
            where.append(f"TD errors of {', '.join(failed)}")
        return f"step {self.step}, episode {self.episode}: not finite: {'; '.join(where) or 'a gradient'}"


def _seeds(seed: int, worker: int) -> tuple[int, list[int]]:
    """Returns the seed of the network, which all workers share, and those of this worker's three generators."""
    network_seed, *generator_seeds = (int(state) for state in np.random.SeedSequence(seed).generate_state(4))
    if worker:
        own = np.random.SeedSequence(seed, spawn_key=(worker,))
        generator_seeds = [int(state) for state in own.generate_state(3)]
    return network_seed, generator_seeds


def non_finite(variables: list[keras.Variable]) -> list[str]:
    """Returns the paths of the variables that hold a NaN or an infinity."""
    return [
        variable.path
        for variable in variables
        if np.issubdtype(variable.numpy().dtype, np.floating) and not np.isfinite(variable.numpy()).all()
    ]


METRICS = ("appropriateness", "safety", "questions")


class EpisodeWindow(tf.Module):
    """The metrics of the last `episodes` finished episodes."""

    def __init__(self, episodes: int):
        super().__init__(name="window")
        self._rows = tf.Variable(tf.zeros([episodes, len(METRICS)]), name="rows")
        self._finished = tf.Variable(0, dtype=tf.int64, name="finished")

    def record(self, decisions: tf.Tensor, decision_counts: tf.Tensor, questions: tf.Tensor) -> None:
        """Adds finished episodes, no more than the window holds.

        Args:
            decisions: int32 `[F]`, column of each triage decision.
            decision_counts: `[F, 4]`, the clinicians' decisions on each vignette.
            questions: int32 `[F]`, number of questions asked.
        """
        rows = [
            tf.gather(rewards.appropriate(decision_counts), decisions, batch_dims=1),
            tf.gather(rewards.safe(decision_counts), decisions, batch_dims=1),
            questions,
        ]
        count = tf.size(decisions, tf.int64)
        slots = (self._finished + tf.range(count)) % self._rows.shape[0]
        self._rows.scatter_nd_update(slots[:, tf.newaxis], tf.stack([tf.cast(row, tf.float32) for row in rows], axis=1))
        self._finished.assign_add(count)

    def means(self) -> dict[str, float]:
        """Returns the mean of each metric over the window, empty before the first episode has ended."""
        held = min(int(self._finished), self._rows.shape[0])
        if not held:
            return {}
        return dict(zip(METRICS, self._rows[:held].numpy().mean(axis=0).tolist(), strict=True))

"""The training cycle of the paper (algo:dyqn) as one compiled loop: collect, store, learn, once a step.

The loop returns to Python every few hundred steps. Its state after a given step does not depend on when it returned, so
a run that is resumed from a checkpoint gives the same result as one that was not interrupted.
"""

import zlib
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from schemas.triage import ACTION_LABELS, DECISION_LABELS, NUM_DECISIONS
from trainer import state
from trainer.config import TrainConfig
from trainer.dyqn import rewards, targets
from trainer.dyqn.agent import DyqnAgent
from trainer.dyqn.dial import HeldOut
from trainer.dyqn.environment import Mode, VignetteEnvironment, Vignettes
from trainer.dyqn.network import WORDS, build_network, dropout_states, set_output_bias
from trainer.dyqn.replay import BucketMemory
from trainer.dyqn.rollout import EpisodeWindow
from trainer.dyqn.targets import Transition
from trainer.dyqn.validation import divide, judged_in_training, judged_when_trained
from trainer.dyqn.workers import ALONE, Workers

PROBABILITY_LABELS = tuple(f"{what} {label}" for what in ("appropriate", "safe") for label in DECISION_LABELS)
SINGLE_DECISIONS = "single decisions"


class TrainingDivergedError(RuntimeError):
    """The loss or a gradient was not finite; the message names the step and all values that are not finite."""


class Progress(NamedTuple):
    """The result of one call of the loop."""

    loss: float | None  # mean over the optimisations of the call; None if there was none
    action_losses: dict[str, float]  # mean squared TD error of each action, by label


class TrainingLoop:
    """Trains an agent with its environment and its memory.

    Every random draw comes from a generator that is seeded from `config.loop.seed` and is part of the checkpoint. With
    several `workers`, each has its own environment, memory and random draws, and all have the same weights.
    """

    def __init__(
        self,
        vignettes: Vignettes,
        evidence_count: int,
        config: TrainConfig,
        workers: Workers = ALONE,
        words: np.ndarray | None = None,
        start: Callable[[keras.Model], None] | None = None,
    ):
        """Makes the loop.

        Args:
            vignettes: of the training split.
            evidence_count: E.
            config: of the run.
            workers: that train together.
            words: float32 `[E, W]`, see `trainer.dyqn.words`; required if the network has words as inputs.
            start: sets the initial weights; None means random ones.
        """
        # With op determinism, a resumed run equals an uninterrupted one, bit for bit on one machine.
        tf.config.experimental.enable_op_determinism()
        self.config = config
        self._evidence_count = evidence_count
        self._workers = workers
        network_seed, generator_seeds = _seeds(config.loop.seed, workers.index)
        self._generators = {
            name: tf.random.Generator.from_seed(seed, alg="philox")
            for name, seed in zip(("environment", "exploration", "memory"), generator_seeds, strict=True)
        }
        seed, networks = config.loop.seed, config.network.networks
        division = divide(vignettes, config.validation, seed)
        self._judgement = judged_in_training(division, config.validation, networks, evidence_count, seed)
        self._apart = judged_when_trained(division, networks, evidence_count, seed)
        self._parts = tf.constant(division.parts)
        self.environment = VignetteEnvironment(
            division.learned,
            evidence_count,
            _training_mode(config),
            self._generators["environment"],
            config.environment.environments,
        )
        self.network = build_network(evidence_count, config.network, network_seed)
        if config.network.words:
            self.network.get_layer(WORDS).set_weights([words])
        if start is not None:
            start(self.network)
        elif config.network.output_bias == "means":
            r_t = rewards.counterfactual_reward(division.learned.decision_counts)
            set_output_bias(self.network, targets.mean_logits(r_t, config.network.outputs == "probabilities"))
        self.agent = DyqnAgent(
            self.environment.time_step_spec(),
            self.environment.action_spec(),
            self.network,
            config,
            self._generators["exploration"],
            workers,
        )
        # The first piece of evidence, one more for each question, and one for the successor of the last state.
        self._known_limit = min(int(np.diff(vignettes.offsets).max()), config.environment.max_questions + 2)
        self.memory = BucketMemory(evidence_count, self._known_limit, NUM_DECISIONS, config.memory)
        # The weights that the run saves: those with the lowest validation loss, or the last ones.
        self.chosen = self.network
        if self.judges or config.optimiser.average or config.network.words:
            self.chosen = build_network(evidence_count, config.network.served, seed=0)
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
        """The step whose weights had the lowest validation loss, 0 before any are chosen."""
        return int(self._best_step)

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or the validation loss has not fallen for `patience` validations."""
        if self.step >= self.config.loop.steps:
            return True
        validation = self.config.validation
        waited = self.step - max(self.best_step, self._first_choice)
        return self.judges and waited >= validation.patience * validation.validation_interval

    @property
    def _first_choice(self) -> int:
        """The first step whose weights may be chosen: after three quarters, as rare decisions are learned last."""
        loop = self.config.loop
        return loop.burn_in_steps + max(loop.steps - loop.burn_in_steps, 0) * 3 // 4

    @property
    def judges(self) -> bool:
        """Whether there are vignettes for validation, which may end the training."""
        return self._judgement is not None

    def validate(self) -> float | None:
        """Returns the validation loss; None without vignettes for validation.

        After three quarters of the steps, the weights with the lowest loss are chosen. The loss may be lower earlier,
        but a network that has not learned a rare decision such as Red can have a low loss too, and the average of
        several networks keeps improving while the loss of each one rises.
        """
        if self._judgement is None:
            return None
        best = self.chosen.get_weights()
        self.agent.copy_weights_to(self.chosen)
        loss = self._judgement.loss(self.chosen)
        if self.step >= self._first_choice and loss < float(self._best_loss):
            self._best_loss.assign(loss)
            self._best_step.assign(self._step)
        else:
            self.chosen.set_weights(best)
        return loss

    def choose_latest(self) -> None:
        """Chooses the latest weights if none are chosen yet, as a run may end before that."""
        if self.chosen is not self.network and not self.best_step:
            self.agent.copy_weights_to(self.chosen)

    def settle(self) -> HeldOut:
        """Calibrates the chosen weights, and returns their outputs for vignettes that networks do not learn from."""
        self.choose_latest()
        judged = apart = None
        if self._judgement is not None:
            self._judgement.calibrate(self.chosen)
            judged = self._judgement.outputs(self.chosen)
        if self._apart is not None:
            apart = self._apart.outputs(self.chosen)
        return HeldOut(judged, apart)

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
        forced = self.environment.current_time_step().observation.forced
        action = self.agent.collect_policy.choose(outputs, forced)
        after = self.environment.step(action)
        part = tf.gather(self._parts, self.environment.vignettes_drawn)
        transition = Transition(s_tm1, action, after.reward, self._known(), part)
        self.memory.add(transition, targets.priority(outputs, after.reward))
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
        batch = batch._replace(s_tm1=self._states(batch.s_tm1), s_t=self._states(batch.s_t))
        done = self.agent.train(batch).extra
        return done.finite, done.action_losses

    def _states(self, signed_codes: tf.Tensor) -> tf.Tensor:
        """Returns the states float32 `[B, E]` of signed codes `[B, W]`."""
        return state.from_signed_codes(signed_codes, self._evidence_count)

    def _divergence(self, losses: tf.Tensor) -> str:
        where = [f"weights {name}" for name in non_finite(self.network.variables)]
        where += [f"optimiser state {name}" for name in non_finite(self.agent.optimizer.variables)]
        if not np.isfinite(losses.numpy()).all():
            labels = (*ACTION_LABELS, *PROBABILITY_LABELS, SINGLE_DECISIONS)
            failed = [label for label, loss in zip(labels, losses.numpy(), strict=False) if not np.isfinite(loss)]
            where.append(f"TD errors of {', '.join(failed)}")
        return f"step {self.step}, episode {self.episode}: not finite: {'; '.join(where) or 'a gradient'}"


def _training_mode(config: TrainConfig) -> Mode:
    return Mode(
        training=True,
        max_questions=config.environment.max_questions,
        counterfactual=config.target.ask_successor != "same_state",
        any_start=config.environment.start == "any",
        thinning=config.environment.thinning,
        epochs=config.environment.draw == "epochs",
    )


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

"""The partially-observed agents (paper, section "Baselines"): fixed triage, learned asking.

The Q-values of the triage decisions are the class probabilities of a classifier trained on D_pow, which stays fixed.
Only Q(s, ask) is learned, towards the OR or the AND query, in the training cycle of algo:dyqn: the same vignettes,
evidence orders, question limit, noise, burn-in, and one optimisation a step.

What differs from `trainer.dyqn.loop`:
- The memory is sampled uniformly. The paper's priority is the mean TD error of the triage decisions. Here these are
  fixed and sum to 1, so that the error is (sum of the rewards - 1) / 4: the same for all states of a vignette, and 0 if
  the clinicians agree. It says nothing about asking, and would hide the clear vignettes.
- The memory holds Q_m(s) and Q_m(s') instead of the reward, as they never change.
- Hundreds of episodes are drawn ahead, so that the classifier judges all their states in one call.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas.triage import Action, is_forced
from trainer.config import TrainConfig
from trainer.decision import rewards
from trainer.dyqn import targets
from trainer.dyqn.agent import build_optimizer
from trainer.dyqn.environment import Mode, VignetteEnvironment
from trainer.dyqn.loop import Progress, TrainingDivergedError
from trainer.dyqn.network import build_network
from trainer.dyqn.policy import noise_scale
from trainer.study.state_values import Prefixes, StateValues, TriageValues, prefixes
from trainer.vignettes import state
from trainer.vignettes.state import Vignettes

EPISODES_AHEAD = 256
STATES_AT_ONCE = 4_096
"""States whose Q(s, ask) is computed at a time, so that their dense form stays small."""


class AskTransitions(NamedTuple):
    """Transitions as the memory keeps them; without `[B]` a single one."""

    codes_tm1: np.ndarray  # int32 [B, W], signed codes of s, padded with 0
    codes_t: np.ndarray  # int32 [B, W], of s'
    q_m_tm1: np.ndarray  # float32 [B], Q_m(s)
    q_m_t: np.ndarray  # float32 [B], Q_m(s')
    weight: np.ndarray  # float32 [B], 0 where ask has no loss


class UniformMemory:
    """The latest transitions, sampled uniformly."""

    def __init__(self, capacity: int, width: int, seed: np.random.SeedSequence):
        """Makes an empty memory.

        Args:
            capacity: transitions that it holds; the oldest goes first.
            width: W of the signed codes.
            seed: of the samples.
        """
        codes: np.ndarray = np.zeros([2, capacity, width], np.int32)
        self._kept = AskTransitions(*codes, *np.zeros([3, capacity], np.float32))
        self._stored = 0
        self._generator = np.random.default_rng(seed)

    def add(self, transition: AskTransitions) -> None:
        """Stores a single transition."""
        for column, value in zip(self._kept, transition, strict=True):
            column[self._stored % len(column)] = value
        self._stored += 1

    def sample(self, batch_size: int) -> AskTransitions:
        """Returns transitions drawn with replacement; the memory holds at least one."""
        held = min(self._stored, len(self._kept.weight))
        slots = self._generator.integers(0, held, batch_size)
        return AskTransitions(*(column[slots] for column in self._kept))


class PartiallyObservedLoop:
    """Trains an agent that learns when to ask.

    Every random draw comes from `config.loop.seed`. The network is that of `trainer.dyqn.network`; only its
    output for `ask` is used and trained. Of `config.memory`, only capacity and batch size are used.
    """

    def __init__(self, vignettes: Vignettes, evidence_count: int, triage_values: TriageValues, config: TrainConfig):
        tf.config.experimental.enable_op_determinism()
        network_seed, episode_seed, noise_seed, memory_seed = np.random.SeedSequence(config.loop.seed).spawn(4)
        self.config = config
        self.network = build_network(evidence_count, config.network, _number(network_seed))
        self.step, self.episode = 0, 0
        self._evidence_count = evidence_count
        self._optimizer = build_optimizer(config.optimiser)
        self._optimizer.build(self.network.trainable_variables)
        self._noise = np.random.default_rng(noise_seed)
        self._episodes = _Episodes(vignettes, StateValues(triage_values, evidence_count), config, _number(episode_seed))
        self._memory = UniformMemory(config.memory.memory_capacity, self._episodes.width, memory_seed)
        codes = tf.TensorSpec([None, None], tf.int32)
        values = tf.TensorSpec([None], tf.float32)
        self._ask = tf.function(self._ask_in_graph, [codes], autograph=False)
        self._optimise = tf.function(
            self._optimise_in_graph, [AskTransitions(codes, codes, values, values, values)], False
        )
        self._current: _Episode | None = None
        self._questions = 0
        self._noise_scale = 0.0

    def ask_values(self, codes: np.ndarray) -> np.ndarray:
        """Returns Q(s, ask) of states, float32 `[P]`.

        Args:
            codes: int32 `[P, W]`, their signed codes, padded with 0.
        """
        parts = [codes[start : start + STATES_AT_ONCE] for start in range(0, len(codes), STATES_AT_ONCE)]
        return np.concatenate([np.zeros(0, np.float32), *(self._ask(part).numpy() for part in parts)])

    def run(self, until_step: int) -> Progress:
        """Takes steps until `until_step` have been taken.

        Raises:
            TrainingDivergedError: a loss or gradient is not finite. The weights are those before that optimisation.
        """
        losses = []
        while self.step < until_step:
            self._memory.add(self._act())
            if self.step >= self.config.loop.burn_in_steps:
                loss, finite = self._optimise(self._memory.sample(self.config.memory.batch_size))
                if not finite:
                    raise TrainingDivergedError(
                        f"step {self.step}, episode {self.episode}: not finite: the loss of ask, or its gradient"
                    )
                losses.append(float(loss))
            self.step += 1
        if not losses:
            return Progress(None, {})
        return Progress(float(np.mean(losses)), {Action.ASK.label: float(np.mean(losses))})

    def _act(self) -> AskTransitions:
        """Returns the transition of one action: lines 3 to 17 of the algorithm."""
        if self._current is None:
            self._current, self._questions = self._episodes.next(), 0
            self._noise_scale = float(noise_scale(tf.constant(self.episode, tf.int64), self.config.exploration))
        episode, place = self._current, self._questions  # each question reveals a piece, as long as there is one
        forced = is_forced(place, self.config.environment.max_questions, place + 1 >= episode.evidence)
        noise = self._noise.standard_normal() * self._noise_scale
        asks = bool(not forced and self.ask_values(episode.codes[place : place + 1])[0] + noise > episode.best[place])
        successor = min(place + 1, len(episode.codes) - 1)
        if not asks and self.config.target.ask_successor == "same_state":
            successor = place
        learned = asks or self.config.target.ask_successor != "taken_only"
        if asks:
            self._questions += 1
        else:
            self._current = None
            self.episode += 1
        return AskTransitions(
            episode.codes[place],
            episode.codes[successor],
            episode.q_m[place],
            episode.q_m[successor],
            np.asarray(learned, np.float32),
        )

    def _ask_in_graph(self, codes: tf.Tensor) -> tf.Tensor:
        return self.network(state.from_signed_codes(codes, self._evidence_count))[:, Action.ASK]

    def _optimise_in_graph(self, batch: AskTransitions) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns (mean squared TD error of ask, whether it and its gradient are finite)."""
        settings = self.config.target
        asking = targets.Asking(batch.q_m_tm1, batch.q_m_t, self._ask_in_graph(batch.codes_t), settings.ask_price)
        target = targets.QUERIES[settings.ask_query](asking)
        variables = self.network.trainable_variables
        with tf.GradientTape() as tape:
            errors = tf.stop_gradient(target) - self._ask_in_graph(batch.codes_tm1)
            loss = tf.reduce_mean(batch.weight * tf.square(errors))
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        finite = tf.math.is_finite(loss) & tf.math.is_finite(tf.linalg.global_norm(gradients))

        def update() -> tf.Operation:
            self._optimizer.apply(gradients, variables)
            return tf.no_op()

        tf.cond(finite, update, tf.no_op)
        return loss, finite


class _Episode(NamedTuple):
    """A vignette in a random evidence order, after 1, 2, ... D pieces of evidence."""

    evidence: int  # pieces of evidence of the vignette
    codes: np.ndarray  # int32 [D, W]
    best: np.ndarray  # float32 [D], the highest triage value
    q_m: np.ndarray  # float32 [D], the highest among the decisions that the target considers


class _Episodes:
    """Draws episodes as the training environment does."""

    def __init__(self, vignettes: Vignettes, values: StateValues, config: TrainConfig, seed: int):
        generator = tf.random.Generator.from_seed(seed, alg="philox")
        limit = config.environment.max_questions
        self._environment = VignetteEnvironment(
            vignettes, values.evidence_count, Mode(True, limit), generator, EPISODES_AHEAD
        )
        # The first piece of evidence, one more for each question, and one for the successor of the last state.
        self.width = min(int(np.diff(vignettes.offsets).max()), limit + 2)
        self._values = values
        self._over_appropriate = config.target.best_triage_over == "appropriate"
        self._ahead: list[_Episode] = []

    def next(self) -> _Episode:
        if not self._ahead:
            self._ahead = self._draw()[::-1]
        return self._ahead.pop()

    def _draw(self) -> list[_Episode]:
        self._environment.reset()
        orders = self._environment.state_variables["order"].numpy()
        states = prefixes(orders, self.width)
        values = self._values.of(states.codes)
        q_m = self._q_m(values, states)
        best = values.max(axis=1)
        codes = np.pad(states.codes, [[0, 0], [0, self.width - states.codes.shape[1]]])
        parts = zip(np.count_nonzero(orders, axis=1), states.offsets[:-1], states.offsets[1:], strict=True)
        return [_Episode(int(pieces), codes[i:j], best[i:j], q_m[i:j]) for pieces, i, j in parts]

    def _q_m(self, values: np.ndarray, states: Prefixes) -> np.ndarray:
        allowed = None
        if self._over_appropriate:
            allowed = rewards.appropriate(self._environment.decision_counts)
            allowed = tf.repeat(allowed, np.diff(states.offsets), axis=0)
        return targets.best_triage_value(tf.constant(values), allowed).numpy()


def _number(seed: np.random.SeedSequence) -> int:
    return int(seed.generate_state(1)[0])

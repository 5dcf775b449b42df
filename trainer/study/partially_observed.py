"""The partially-observed agents (paper, section "Baselines"): fixed triage, learned asking.

The Q-values of the triage decisions are the class probabilities of a classifier trained on D_pow, which stays fixed.
Only Q(s, ask) is learned, towards the OR or the AND query, in the training cycle of algo:dyqn: the same vignettes,
evidence orders, question limit, noise, burn-in, and one optimisation a step.

What differs from `trainer.dyqn.loop`:
- The memory is sampled uniformly. The paper's priority is the mean TD error of the triage decisions. Here these are
  fixed and sum to 1, so that the error is (sum of the rewards - 1) / 4: the same for all states of a vignette, and 0 if
  the clinicians agree. It says nothing about asking, and would hide the clear vignettes.
- The memory holds Q_m(s) and Q_m(s') instead of the reward, as they never change.
- The classifier takes little longer for a thousand states than for one. So hundreds of evidence orders are drawn ahead,
  and all their states are judged in one call.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse
import tensorflow as tf

from schemas.triage import NUM_DECISIONS, Action, is_forced
from trainer.config import TrainConfig
from trainer.data import state
from trainer.data.state import Vignettes
from trainer.dyqn import targets
from trainer.dyqn.agent import build_optimizer
from trainer.dyqn.environment import Mode, VignetteEnvironment
from trainer.dyqn.loop import TrainingDivergedError
from trainer.dyqn.network import build_network
from trainer.dyqn.policy import noise_scale
from trainer.dyqn.rollout import Outcomes
from trainer.graph import rewards

EPISODES_AHEAD = 256  # whose states are judged in one call

TriageValues = Callable[[scipy.sparse.csr_matrix], np.ndarray]
"""From states float32 `[B, E]` in {-1, 0, 1} to a value of each triage decision, float `[B, 4]` in [0, 1]."""
AskValues = Callable[[np.ndarray], np.ndarray]
"""From the signed codes of states, int32 `[P, W]` padded with 0, to Q(s, ask), float32 `[P]`."""


class JudgedOrders(NamedTuple):
    """R vignettes in an evidence order each, after 1, 2, ... D pieces of evidence."""

    codes: np.ndarray  # int32 [R, D, D], signed codes, padded with 0
    there: np.ndarray  # bool [R, D], whether the vignette has so many pieces
    values: np.ndarray  # float32 [R, D, 4], the classifier's triage values, 0 where it has not


def judge_orders(
    environment: VignetteEnvironment, triage_values: TriageValues, evidence_count: int, most: int
) -> JudgedOrders:
    """Resets the environment, and judges the order of each vignette up to `most` pieces of evidence."""
    environment.reset()
    orders = environment.state_variables["order"].numpy()[:, :most]
    codes = np.tril(np.repeat(orders[:, np.newaxis], orders.shape[1], axis=1))
    there = orders != 0
    states = scipy.sparse.csr_matrix(state.from_signed_codes(tf.constant(codes[there]), evidence_count).numpy())
    values: np.ndarray = np.zeros([*there.shape, NUM_DECISIONS], np.float32)
    values[there] = triage_values(states)
    return JudgedOrders(codes, there, values)


def evaluation_orders(
    vignettes: Vignettes, triage_values: TriageValues, evidence_count: int, max_questions: int, seeds: Iterable[int]
) -> list[JudgedOrders]:
    """Returns an order of every vignette for each seed, so that agents can be compared vignette by vignette.

    They are those of `trainer.dyqn.rollout.Rollout` for the same seeds, up to its `ROWS_AT_ONCE` vignettes.
    """
    generator = tf.random.Generator.from_seed(0, alg="philox")
    environment = VignetteEnvironment(vignettes, evidence_count, Mode(False, max_questions), generator)
    judged = []
    for seed in seeds:
        generator.reset_from_seed(seed)
        judged.append(judge_orders(environment, triage_values, evidence_count, max_questions + 1))
    return judged


def greedy_outcomes(orders: Iterable[JudgedOrders], ask_values: AskValues, max_questions: int) -> Outcomes:
    """Returns where a greedy agent triages: in the first state with a triage value of at least that of asking.

    As in `trainer.dyqn.rollout`, triage is not forced when the evidence ends, and asking then reveals nothing. So an
    agent that asks in the last state keeps asking until the limit forces it. Equal values go to the more urgent one.
    An order's last state is at most the one after `max_questions`.
    """
    ends = []
    for codes, there, values in orders:
        stops: np.ndarray = np.zeros(there.shape, bool)
        stops[there] = values[there].max(axis=1) >= ask_values(codes[there])
        stopped = stops.any(axis=1)
        place = np.where(stopped, stops.argmax(axis=1), there.sum(axis=1) - 1)
        questions = np.where(stopped, place, max_questions)
        decisions = values[np.arange(len(place)), place].argmax(axis=1)
        ends.append((decisions, questions, place + 1, questions >= max_questions))
    decisions, questions, seen, forced = (np.stack(column) for column in zip(*ends, strict=True))
    return Outcomes(decisions.astype(np.int32), questions.astype(np.int32), seen.astype(np.int32), forced)


class AskTransitions(NamedTuple):
    """Transitions as the memory keeps them, of which B are a batch; without `[B]` a single one."""

    codes_tm1: np.ndarray  # int32 [B, W], signed codes of s, padded with 0
    codes_t: np.ndarray  # int32 [B, W], of s'
    q_m_tm1: np.ndarray  # float32 [B], Q_m(s)
    q_m_t: np.ndarray  # float32 [B], Q_m(s')
    weight: np.ndarray  # float32 [B], 0 where ask has no loss


class PartiallyObservedLoop:
    """Trains an agent that learns when to ask; only the network's output for `ask` is used and trained.

    Every random draw comes from `config.loop.seed`. Of `config.memory`, only capacity and batch size are used.
    """

    def __init__(self, vignettes: Vignettes, evidence_count: int, triage_values: TriageValues, config: TrainConfig):
        tf.config.experimental.enable_op_determinism()
        network_seed, episode_seed, noise_seed, memory_seed = np.random.SeedSequence(config.loop.seed).spawn(4)
        self.config = config
        self.network = build_network(evidence_count, config.network, _number(network_seed))
        self.step, self.episode = 0, 0
        self._count, self._triage_values = evidence_count, triage_values
        self._optimizer = build_optimizer(config)
        self._optimizer.build(self.network.trainable_variables)
        self._noise = np.random.default_rng(noise_seed)
        limit = config.environment.max_questions
        generator = tf.random.Generator.from_seed(_number(episode_seed), alg="philox")
        self._environment = VignetteEnvironment(vignettes, evidence_count, Mode(True, limit), generator, EPISODES_AHEAD)
        # The first piece of evidence, one more for each question, and one for the successor of the last state.
        self._width = min(int(np.diff(vignettes.offsets).max()), limit + 2)
        capacity = config.memory.memory_capacity  # beyond it, the oldest transition goes first
        kept: np.ndarray = np.zeros([2, capacity, self._width], np.int32)
        self._memory = AskTransitions(*kept, *np.zeros([3, capacity], np.float32))
        self._draws = np.random.default_rng(memory_seed)
        self._ask = tf.function(self._ask_in_graph, [tf.TensorSpec([None, None], tf.int32)], autograph=False)
        self._optimise = tf.function(self._optimise_in_graph, autograph=False)
        self._transitions = self._act()

    def ask_values(self, codes: np.ndarray) -> np.ndarray:
        """Returns Q(s, ask) of states, see `AskValues`."""
        return self._ask(codes).numpy()

    def run(self, until_step: int) -> None:
        """Takes steps until `until_step` have been taken.

        Raises:
            TrainingDivergedError: a loss or gradient is not finite. The weights are those before that optimisation.
        """
        while self.step < until_step:
            capacity = len(self._memory.weight)
            for column, value in zip(self._memory, next(self._transitions), strict=True):
                column[self.step % capacity] = value
            if self.step >= self.config.loop.burn_in_steps:
                drawn = self._draws.integers(0, min(self.step + 1, capacity), self.config.memory.batch_size)
                if not self._optimise(AskTransitions(*(column[drawn] for column in self._memory))):
                    raise TrainingDivergedError(
                        f"step {self.step}, episode {self.episode}: not finite: the loss of ask, or its gradient"
                    )
            self.step += 1

    def _act(self) -> Iterator[AskTransitions]:
        """Yields the transition of each action: lines 3 to 17 of the algorithm."""
        limit, after_triage = self.config.environment.max_questions, self.config.target.ask_successor
        for codes, there, best, q_m in self._episodes():
            scale = float(noise_scale(tf.constant(self.episode, tf.int64), self.config.exploration))
            asks, place = True, -1
            while asks:
                place += 1  # each question reveals a piece, as long as there is one
                last = not there[place + 1 :].any()
                noise = self._noise.standard_normal() * scale
                asks = not is_forced(place, limit, last) and bool(
                    self.ask_values(codes[place : place + 1])[0] + noise > best[place]
                )
                self.episode += not asks
                successor = place if last or (not asks and after_triage == "same_state") else place + 1
                learned = np.asarray(asks or after_triage != "taken_only", np.float32)
                yield AskTransitions(codes[place], codes[successor], q_m[place], q_m[successor], learned)

    def _episodes(self) -> Iterator[tuple[np.ndarray, ...]]:
        """Yields vignettes without end, drawn as the training environment draws them, as in `JudgedOrders`.

        In place of the values, the highest of each state, and the highest of those that the target considers, `[D]`.
        """
        while True:
            codes, there, values = judge_orders(self._environment, self._triage_values, self._count, self._width)
            allowed: np.ndarray = np.ones([len(codes), NUM_DECISIONS], bool)
            if self.config.target.best_triage_over == "appropriate":
                allowed = rewards.appropriate(self._environment.decision_counts).numpy()
            q_m = np.where(allowed[:, np.newaxis], values, -1.0).max(axis=2)
            yield from zip(codes, there, values.max(axis=2), q_m, strict=True)

    def _ask_in_graph(self, codes: tf.Tensor) -> tf.Tensor:
        return self.network(state.from_signed_codes(codes, self._count))["q"][:, Action.ASK]

    def _optimise_in_graph(self, batch: AskTransitions) -> tf.Tensor:
        """Returns whether the mean squared TD error of ask and its gradient are finite, bool `[]`; learns if so."""
        settings = self.config.target
        asking = targets.Asking(batch.q_m_tm1, batch.q_m_t, self._ask_in_graph(batch.codes_t), settings.price)
        target = targets.QUERIES[settings.ask_query](asking)
        variables = self.network.trainable_variables
        with tf.GradientTape() as tape:
            errors = tf.stop_gradient(target) - self._ask_in_graph(batch.codes_tm1)
            loss = tf.reduce_mean(batch.weight * tf.square(errors))
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        finite = tf.math.is_finite(loss) & tf.math.is_finite(tf.linalg.global_norm(gradients))

        def update() -> tf.Tensor:
            self._optimizer.apply(gradients, variables)
            return tf.constant(True)

        return tf.cond(finite, update, lambda: tf.constant(False))


def _number(seed: np.random.SeedSequence) -> int:
    return int(seed.generate_state(1)[0])

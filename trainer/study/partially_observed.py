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

from schemas.triage import Action, is_forced
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
from trainer.study.powerset import EvidenceSets

EPISODES_AHEAD = 256

TriageValues = Callable[[scipy.sparse.csr_matrix], np.ndarray]
"""From states float32 `[B, E]` in {-1, 0, 1} to a value of each triage decision, float `[B, 4]` in [0, 1]."""
AskValues = Callable[[np.ndarray], np.ndarray]
"""From the signed codes of states, int32 `[P, W]` padded with 0, to Q(s, ask), float32 `[P]`."""


class JudgedOrders(NamedTuple):
    """The states that R vignettes pass through, each in an evidence order: P in all, order by order."""

    codes: np.ndarray  # int32 [P, W], signed codes, padded with 0
    offsets: np.ndarray  # int64 [R + 1]: order r passes through codes[offsets[r]:offsets[r + 1]], one piece to the last
    values: np.ndarray  # float32 [P, 4], the classifier's triage values
    pieces: np.ndarray  # int [R], of evidence of each vignette


def judge_orders(
    environment: VignetteEnvironment, triage_values: TriageValues, evidence_count: int, most: int
) -> JudgedOrders:
    """Draws an evidence order of each vignette in the environment, and judges the states after 1, 2, ... pieces.

    Args:
        environment: is reset.
        triage_values: the classifier.
        evidence_count: E, the width of the states that it judges.
        most: pieces of evidence in the last state, at most; 1 or more.
    """
    environment.reset()
    orders = environment.state_variables["order"].numpy()
    pieces = np.count_nonzero(orders, axis=1)
    depths = np.minimum(pieces, most)
    offsets = np.concatenate([[0], np.cumsum(depths)]).astype(np.int64)
    rows: np.ndarray = np.repeat(np.arange(len(orders)), depths)
    shown = np.arange(offsets[-1]) - offsets[rows] + 1
    width = int(depths.max(initial=0))
    codes = np.where(np.arange(width) < shown[:, np.newaxis], orders[rows, :width], 0).astype(np.int32)
    sets = EvidenceSets(np.concatenate([[0], np.cumsum(shown)]), codes[codes != 0])
    values = np.asarray(triage_values(state.sparse_states(sets, evidence_count)), np.float32)
    return JudgedOrders(codes, offsets, values, pieces)


def evaluation_orders(
    vignettes: Vignettes, triage_values: TriageValues, evidence_count: int, max_questions: int, seeds: Iterable[int]
) -> list[JudgedOrders]:
    """Returns an order of every vignette for each seed.

    They are those of `trainer.dyqn.rollout.Rollout` for the same vignettes and seeds (up to its `ROWS_AT_ONCE`
    vignettes), so that agents can be compared vignette by vignette.
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

    Args:
        orders: K of them, each of the same V vignettes.
        ask_values: of the agent.
        max_questions: the question limit; an order's last state is at most the one after as many questions.
    """
    ends = []
    for order in orders:
        first: np.ndarray = order.offsets[:-1]
        last: np.ndarray = order.offsets[1:] - 1
        stops = order.values.max(axis=1) >= ask_values(order.codes)
        stop = np.where(stops, np.arange(len(stops)), len(stops))  # the place of each state in which the agent stops
        place = np.minimum.reduceat(stop, first)
        stopped = place <= last
        place = np.where(stopped, place, last)
        questions = np.where(stopped, place - first, max_questions)
        ends.append((order.values[place].argmax(axis=1), questions, place - first + 1, questions >= max_questions))
    decisions, questions, seen, forced = (np.stack(column) for column in zip(*ends, strict=True))
    return Outcomes(decisions.astype(np.int32), questions.astype(np.int32), seen.astype(np.int32), forced)


class AskTransitions(NamedTuple):
    """Transitions as the memory keeps them, of which B are a batch; without `[B]` a single one."""

    codes_tm1: np.ndarray  # int32 [B, W], signed codes of s, padded with 0
    codes_t: np.ndarray  # int32 [B, W], of s'
    q_m_tm1: np.ndarray  # float32 [B], Q_m(s)
    q_m_t: np.ndarray  # float32 [B], Q_m(s')
    weight: np.ndarray  # float32 [B], 0 where ask has no loss


class _Episode(NamedTuple):
    """A vignette in a random evidence order, after 1, 2, ... D pieces of evidence."""

    pieces: int  # of evidence of the vignette
    codes: np.ndarray  # int32 [D, W]
    best: np.ndarray  # float32 [D], the highest triage value
    q_m: np.ndarray  # float32 [D], the highest among the decisions that the target considers


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
        self._evidence_count, self._triage_values = evidence_count, triage_values
        self._optimizer = build_optimizer(config)
        self._optimizer.build(self.network.trainable_variables)
        self._noise = np.random.default_rng(noise_seed)
        limit = config.environment.max_questions
        generator = tf.random.Generator.from_seed(_number(episode_seed), alg="philox")
        self._environment = VignetteEnvironment(vignettes, evidence_count, Mode(True, limit), generator, EPISODES_AHEAD)
        # The first piece of evidence, one more for each question, and one for the successor of the last state.
        self._width = min(int(np.diff(vignettes.offsets).max()), limit + 2)
        self._episodes = self._draw_episodes()
        capacity = config.memory.memory_capacity  # beyond it, the oldest transition goes first
        kept: np.ndarray = np.zeros([2, capacity, self._width], np.int32)
        self._memory = AskTransitions(*kept, *np.zeros([3, capacity], np.float32))
        self._draws = np.random.default_rng(memory_seed)
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
        """Returns Q(s, ask) of states, see `AskValues`."""
        return self._ask(codes).numpy()

    def run(self, until_step: int) -> float | None:
        """Takes steps until `until_step` have been taken; returns the mean loss, None within the burn-in.

        Raises:
            TrainingDivergedError: a loss or gradient is not finite. The weights are those before that optimisation.
        """
        losses = []
        while self.step < until_step:
            capacity = len(self._memory.weight)
            for column, value in zip(self._memory, self._act(), strict=True):
                column[self.step % capacity] = value
            if self.step >= self.config.loop.burn_in_steps:
                drawn = self._draws.integers(0, min(self.step + 1, capacity), self.config.memory.batch_size)
                loss, finite = self._optimise(AskTransitions(*(column[drawn] for column in self._memory)))
                if not finite:
                    raise TrainingDivergedError(
                        f"step {self.step}, episode {self.episode}: not finite: the loss of ask, or its gradient"
                    )
                losses.append(float(loss))
            self.step += 1
        return float(np.mean(losses)) if losses else None

    def _act(self) -> AskTransitions:
        """Returns the transition of one action: lines 3 to 17 of the algorithm."""
        if self._current is None:
            self._current, self._questions = next(self._episodes), 0
            self._noise_scale = float(noise_scale(tf.constant(self.episode, tf.int64), self.config.exploration))
        episode, place = self._current, self._questions  # each question reveals a piece, as long as there is one
        forced = is_forced(place, self.config.environment.max_questions, place + 1 >= episode.pieces)
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

    def _draw_episodes(self) -> Iterator[_Episode]:
        """Yields episodes without end, drawn as the training environment draws them."""
        while True:
            orders = judge_orders(self._environment, self._triage_values, self._evidence_count, self._width)
            allowed = None
            if self.config.target.best_triage_over == "appropriate":
                allowed = rewards.appropriate(self._environment.decision_counts)
                allowed = tf.repeat(allowed, np.diff(orders.offsets), axis=0)
            q_m = targets.best_triage_value(tf.constant(orders.values), allowed).numpy()
            best = orders.values.max(axis=1)
            codes = np.pad(orders.codes, [[0, 0], [0, self._width - orders.codes.shape[1]]])
            for pieces, i, j in zip(orders.pieces, orders.offsets[:-1], orders.offsets[1:], strict=True):
                yield _Episode(int(pieces), codes[i:j], best[i:j], q_m[i:j])

    def _ask_in_graph(self, codes: tf.Tensor) -> tf.Tensor:
        return self.network(state.from_signed_codes(codes, self._evidence_count))["q"][:, Action.ASK]

    def _optimise_in_graph(self, batch: AskTransitions) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns (mean squared TD error of ask, whether it and its gradient are finite)."""
        settings = self.config.target
        asking = targets.Asking(batch.q_m_tm1, batch.q_m_t, self._ask_in_graph(batch.codes_t), settings.price)
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


def _number(seed: np.random.SeedSequence) -> int:
    return int(seed.generate_state(1)[0])

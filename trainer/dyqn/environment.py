"""The vignette environment: a batched, in-graph `TFEnvironment` (paper, section "The Vignette environment").

An episode is one vignette. Its evidence is put into a random order when it is drawn. One piece is known at the start
(any number of them with exploring starts), and each `ask` reveals the next one, which is the same as revealing a
missing piece uniformly at random. As the order is drawn in advance, the environment knows what asking would have
revealed even if the agent triages: the state of the LAST time step is that *ask successor*.

With an `Interviewer`, an episode is an interview: each `ask` puts the question that the agent chooses, and the patient
answers it. The answer is looked up before the agent acts, so that the ask successor is known here as well.

The vignettes are in memory as compressed sparse rows, with two or four bytes for each piece of evidence.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf
from tf_agents.environments import tf_environment
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action, is_forced
from trainer.graph.questions import Imagined
from trainer.graph.rewards import counterfactual_reward
from trainer.vignettes import state
from trainer.vignettes.state import Vignettes

Imagine = Callable[[tf.Tensor], Imagined]
"""From states `[B, E]` to a question in each of them."""


class Interviewer(Protocol):
    """Puts questions to the patients behind vignettes."""

    def patients(self, vignettes: tf.Tensor) -> tf.Tensor:
        """Returns what the patients of `vignettes`, int64 `[B]`, answer to each question: int8 `[B, E]`, 1 or -1."""

    @property
    def most_answers(self) -> int:
        """T, the largest number of answers to one question."""

    def answers(self, states: tf.Tensor, patients: tf.Tensor, explored: tf.Tensor) -> tf.Tensor:
        """Returns what `patients` answer to the next question, signed codes int32 `[B, T]`, 0 where there is none.

        Args:
            states: float32 `[B, E]`.
            patients: what they answer to each question, int8 `[B, E]`.
            explored: the share of questions that are drawn at random, float32 `[B]`.
        """

    @property
    def imagine(self) -> Imagine | None:
        """What imagines questions that an agent learns from beside those it asks; None for none."""


class Interviews(Protocol):
    """Interviews that an agent leads, while it learns and with held-out patients."""

    @property
    def whole(self) -> bool:
        """Whether vignettes list everything that a patient has."""

    @property
    def card_starts(self) -> float:
        """The share of training's interviews that start from a part of the card, not from its first piece alone."""

    @property
    def card_reading(self) -> float:
        """The share of training's interviews in which ask reveals the next piece of the card, in a random order."""

    def begin(self, vignettes: Vignettes, network: keras.Model, generator: tf.random.Generator) -> Interviewer:
        """Returns the interviewer of a training run, whose questions follow `network` as it learns."""

    def interview_states(self, network: keras.Model | None, vignettes: Vignettes) -> np.ndarray:
        """Returns the states of interviews, int8 `[M, Q + 1, E]`, that `network` leads with M held-out patients.

        Without a network, the mixture of patients leads them.
        """


class Observation(NamedTuple):
    """What the agent sees."""

    state: tf.Tensor  # float32 [B, E] in {-1, 0, 1}
    forced: tf.Tensor  # bool [B], whether the agent must triage because asking is not possible


@dataclasses.dataclass(frozen=True)
class Mode:
    """How episodes run.

    Training draws vignettes at random, and forces a triage when the vignette has no evidence left. In evaluation, row v
    of the batch plays vignette v in every episode, and the agent may ask in vain. Both force a triage after
    `max_questions`.
    """

    training: bool
    max_questions: int
    counterfactual: bool = True  # the LAST state is the ask successor; otherwise the state in which triage happened
    any_start: bool = False  # exploring starts: 1 to all pieces are known at the start, each number equally likely
    masking: float = 0.0  # probability with which each of those pieces stays unknown after all, except for one
    epochs: bool = False  # whether every vignette is drawn once before any is drawn again; each epoch is shuffled
    card_starts: float = 1.0  # share of interviews that start from a part of the card, not from its first piece alone
    card_reading: float = 0.0  # share of interviews in which ask reveals the card's next piece; part of card_starts

    @property
    def explored(self) -> tuple[float, ...]:
        """The shares of questions that are drawn at random; each interview has one of them."""
        return (0.0, 0.0, 0.15, 0.4)


class VignetteEnvironment(tf_environment.TFEnvironment):
    """Episodes over vignettes.

    Observation: `Observation`. Action: int32 `[B]` in `[0, A)`. Reward: the counterfactual reward float32 `[B, 4]` of
    the triage decisions, zero on FIRST. Like all TF-Agents environments, it starts a new episode, whatever the action,
    in rows whose current time step is LAST.

    Raises:
        ValueError: there is no vignette, or one has no evidence or no decisions.
        tf.errors.InvalidArgumentError: the action is `ask` although the observation forces a triage.
    """

    def __init__(
        self,
        vignettes: Vignettes,
        evidence_count: int,
        mode: Mode,
        generator: tf.random.Generator,
        training_rows: int = 1,
        interviewer: Interviewer | None = None,
    ):
        """Makes the environment; every row starts its first episode on `reset`.

        Args:
            vignettes: V vignettes.
            evidence_count: E, the width of the state.
            mode: training or evaluation.
            generator: of the vignettes drawn and of the evidence orders.
            training_rows: B in training; in evaluation B is V.
            interviewer: who chooses what `ask` reveals; None means the next piece in a random order.
        """
        counts = np.diff(vignettes.offsets)
        if not len(counts) or counts.min() < 1 or vignettes.decision_counts.sum(axis=1).min() < 1:
            raise ValueError("expected at least one vignette, each with evidence and decisions")
        self._evidence_count = evidence_count
        self._card_width = int(counts.max())
        self._width = self._card_width
        if interviewer is not None:  # all answers that an interview can have
            self._width = min(self._width + mode.max_questions * interviewer.most_answers, evidence_count)
        self._mode = mode
        self._generator = generator
        self._offsets = tf.constant(vignettes.offsets, tf.int64)
        self._signed_codes = tf.constant(vignettes.signed_codes)
        self._decision_counts = tf.constant(vignettes.decision_counts)
        batch_size = training_rows if mode.training else len(counts)
        self._vignette = tf.Variable(tf.zeros([batch_size], tf.int64), name="vignette")
        self._order = tf.Variable(tf.zeros([batch_size, self._width], tf.int32), name="order")
        self._revealed = tf.Variable(tf.zeros([batch_size], tf.int32), name="revealed")
        # How many pieces asking makes known from here.
        self._next = tf.Variable(tf.ones([batch_size], tf.int32), name="next")
        self._questions = tf.Variable(tf.zeros([batch_size], tf.int32), name="questions")
        self._step_type = tf.Variable(tf.fill([batch_size], ts.StepType.LAST), name="step_type")
        self._drawn = tf.Variable(0, dtype=tf.int64, name="drawn")
        self._interviewer = interviewer
        patients = [batch_size, evidence_count] if interviewer else [0, 0]
        self._answers = tf.Variable(tf.zeros(patients, tf.int8), name="answers")
        self._explored = tf.Variable(tf.zeros([batch_size]), name="explored")
        self._limit = tf.Variable(tf.fill([batch_size], mode.max_questions), name="limit")
        self._reads = tf.Variable(tf.zeros([batch_size], tf.bool), name="reads")
        self._epoch_seed = generator.make_seeds(1)[:, 0] if mode.epochs else None  # int64 [2]
        super().__init__(time_step_spec(evidence_count), action_spec(), batch_size)

    @property
    def state_variables(self) -> dict[str, tf.Variable]:
        """Everything that changes during episodes, except for the generator; for checkpoints."""
        return {
            "vignette": self._vignette,
            "order": self._order,
            "revealed": self._revealed,
            "next": self._next,
            "questions": self._questions,
            "step_type": self._step_type,
            "drawn": self._drawn,
            "answers": self._answers,
            "explored": self._explored,
            "limit": self._limit,
            "reads": self._reads,
        }

    @property
    def interviewer(self) -> Interviewer | None:
        """Who chooses what `ask` reveals if episodes are interviews."""
        return self._interviewer

    @property
    def signed_codes(self) -> tf.Tensor:
        """int32 `[B, M]`: the state of each row's current time step as signed codes, M the largest vignette."""
        # Triage reveals nothing; the LAST state only shows what asking would have revealed.
        shows = self._is_last() & self._mode.counterfactual
        visible = tf.where(shows, self._revealed + self._next, self._revealed)
        shown = tf.minimum(visible, self._most_revealed())
        return tf.where(tf.sequence_mask(shown, self._width), self._order, 0)

    @property
    def questions_asked(self) -> tf.Tensor:
        """int32 `[B]`: number of `ask` actions in each row's episode."""
        return tf.identity(self._questions)

    @property
    def evidence_seen(self) -> tf.Tensor:
        """int32 `[B]`: pieces of evidence that the agent knows in each row's episode, the first one included."""
        return tf.identity(self._revealed)

    @property
    def decision_counts(self) -> tf.Tensor:
        """uint8 `[B, 4]`: the clinicians' decisions on each row's vignette."""
        return tf.gather(self._decision_counts, self._vignette)

    @property
    def forced(self) -> tf.Tensor:
        """Whether each row must triage, bool `[B]`: that part of the observation alone."""
        exhausted = self._mode.training & (self._revealed >= self._most_revealed())
        return is_forced(self._questions, self._limit, exhausted)

    def _evidence_total(self) -> tf.Tensor:
        starts = tf.gather(self._offsets, self._vignette)
        return tf.cast(tf.gather(self._offsets, self._vignette + 1) - starts, tf.int32)  # [B]

    def _most_revealed(self) -> tf.Tensor:
        """Returns the largest number of pieces that can be known in an episode, int32 `[B]`."""
        total = self._evidence_total()
        return tf.where(self._reads, total, self._width) if self._interviewer else total

    def _is_last(self) -> tf.Tensor:
        return self._step_type == ts.StepType.LAST

    def _current_time_step(self) -> ts.TimeStep:
        last = self._is_last()
        first = self._step_type == ts.StepType.FIRST
        reward = counterfactual_reward(self.decision_counts)  # [B, 4]
        return ts.TimeStep(
            step_type=tf.identity(self._step_type),
            reward=tf.where(first[:, tf.newaxis], 0.0, reward),
            discount=tf.where(last, 0.0, 1.0),
            observation=Observation(
                state=state.from_signed_codes(self.signed_codes, self._evidence_count),
                forced=self.forced,
            ),
        )

    def begin_where_ended(self) -> None:
        """Starts a new episode in each row whose episode has ended; `step` would take a step for that."""
        ended = self._is_last()
        tf.cond(tf.reduce_any(ended), lambda: self._begin(ended), tf.no_op)

    def _reset(self) -> ts.TimeStep:
        self._begin(tf.ones([self.batch_size], tf.bool))
        return self._current_time_step()

    def _step(self, action: tf.Tensor) -> ts.TimeStep:
        forced, starting = self.forced, self._is_last()
        if self._interviewer is not None:
            known, count = self._with_next_answers(self._interviewer, starting | self._reads)
            self._order.assign(tf.where(starting[:, tf.newaxis], self._order, known))
            self._next.assign(tf.where(starting, self._next, count))
        asking = (action == Action.ASK) & ~starting
        legal = tf.debugging.Assert(~tf.reduce_any(asking & forced), ["the action is ask, but triage is forced"])
        with tf.control_dependencies([legal] if legal is not None else []):
            self._questions.assign_add(tf.cast(asking, tf.int32))
        revealed = tf.minimum(self._revealed + self._next, self._most_revealed())
        self._revealed.assign(tf.where(asking, revealed, self._revealed))
        self._step_type.assign(tf.where(asking, ts.StepType.MID, ts.StepType.LAST))
        tf.cond(tf.reduce_any(starting), lambda: self._begin(starting), tf.no_op)
        return self._current_time_step()

    def _begin(self, rows: tf.Tensor) -> tf.Operation:
        """Starts a new episode in each of `rows`, bool `[B]`."""
        self._vignette.assign(tf.where(rows, self._next_vignettes(rows), self._vignette))
        order, revealed = self._draw_order(), self._revealed_at_start()
        if self._interviewer is not None:
            order, revealed = self._begin_interview(self._interviewer, rows, order, revealed)
        self._order.assign(tf.where(rows[:, tf.newaxis], order, self._order))
        self._revealed.assign(tf.where(rows, revealed, self._revealed))
        self._questions.assign(tf.where(rows, 0, self._questions))
        self._step_type.assign(tf.where(rows, ts.StepType.FIRST, self._step_type))
        return tf.no_op()

    def _begin_interview(
        self, interviewer: Interviewer, rows: tf.Tensor, order: tf.Tensor, revealed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns what is known when the interviews of `rows`, bool `[B]`, start: codes `[B, M]`, and their number.

        Either a part of the card, as `order` `[B, C]` and `revealed` say, or only its first piece, which is what the
        patient comes with. It also draws how long each interview may last, so that all lengths are learned.

        In some, the card is read piece by piece, as in the paper: most states of interviews hold many answers that no
        card gives, so that the network would hardly see a card otherwise.
        """
        uniform = self._generator.uniform([4, self.batch_size])
        first = tf.cast(tf.gather(self._signed_codes, tf.gather(self._offsets, self._vignette)), tf.int32)
        from_card = uniform[0] < self._mode.card_starts
        alone = tf.concat([first[:, tf.newaxis], tf.zeros_like(order[:, 1:])], axis=1)
        known = tf.where(from_card[:, tf.newaxis], order, alone)
        revealed = tf.where(from_card, revealed, 1)
        reads = uniform[0] < self._mode.card_reading
        revealed = tf.where(reads, self._pieces(uniform[3]), revealed)
        known = tf.where(reads[:, tf.newaxis] | tf.sequence_mask(revealed, self._card_width), known, 0)
        shares = tf.constant(self._mode.explored)
        explored = tf.gather(shares, tf.cast(uniform[1] * len(self._mode.explored), tf.int32))
        limit = tf.cast(uniform[2] * (self._mode.max_questions + 1), tf.int32)
        limit = tf.where(reads, self._mode.max_questions, limit)
        self._answers.assign(tf.where(rows[:, tf.newaxis], interviewer.patients(self._vignette), self._answers))
        self._explored.assign(tf.where(rows, explored, self._explored))
        self._limit.assign(tf.where(rows, limit, self._limit))
        self._reads.assign(tf.where(rows, reads, self._reads))
        return tf.pad(known, [[0, 0], [0, self._width - self._card_width]]), revealed

    def _with_next_answers(self, interviewer: Interviewer, any_will_do: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the codes of each row, int32 `[B, M]`, with the answers to the next question, and their number.

        Rows in which `any_will_do`, bool `[B]`, get a question drawn at random, which takes least time.
        """
        shown = tf.sequence_mask(self._revealed, self._width)
        known = tf.where(shown, self._order, 0)
        states = state.from_signed_codes(known, self._evidence_count)
        answers = interviewer.answers(states, self._answers, tf.where(any_will_do, 1.0, self._explored))
        first = tf.argsort(tf.cast(answers == 0, tf.int32), axis=1, stable=True)
        answers = tf.gather(answers, first, batch_dims=1)
        places = tf.range(self._width) - self._revealed[:, tf.newaxis]  # [B, M], among the answers
        there = (places >= 0) & (places < interviewer.most_answers)
        answered = tf.gather(answers, tf.where(there, places, 0), batch_dims=1)
        codes = tf.where(self._reads[:, tf.newaxis], self._order, tf.where(there, answered, known))
        return codes, tf.where(self._reads, 1, tf.math.count_nonzero(answers, axis=1, dtype=tf.int32))

    def _revealed_at_start(self) -> tf.Tensor:
        """Returns the number of pieces of evidence known when an episode starts, int32, scalar or `[B]`."""
        if not self._mode.any_start:
            return tf.constant(1)
        known = self._pieces(self._generator.uniform([self.batch_size]))
        if not self._mode.masking:
            return known
        kept = self._generator.uniform([self.batch_size, self._card_width]) >= self._mode.masking
        kept &= tf.sequence_mask(known, self._card_width)
        return tf.maximum(tf.reduce_sum(tf.cast(kept, tf.int32), axis=1), 1)

    def _pieces(self, share: tf.Tensor) -> tf.Tensor:
        """Returns how many pieces of evidence of each row a share `[B]` in [0, 1) makes: from 1 to all, int32 `[B]`."""
        total = self._evidence_total()
        return tf.minimum(1 + tf.cast(share * tf.cast(total, tf.float32), tf.int32), total)

    def _next_vignettes(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns the vignettes of new episodes, int64 `[B]`; only the entries of `rows`, bool `[B]`, are used.

        In training they are drawn, uniformly or in epochs; in evaluation row v plays vignette v.
        """
        if not self._mode.training:
            return tf.range(self.batch_size, dtype=tf.int64)
        count = tf.shape(self._decision_counts, tf.int64)[0]
        if self._epoch_seed is not None:
            return self._next_of_epoch(rows, count)
        return self._generator.uniform([self.batch_size], maxval=count, dtype=tf.int64)

    def _next_of_epoch(self, rows: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """Returns for each of `rows` the next vignette of the epoch, int64 `[B]`; an epoch has all `count` once."""
        numbers = self._drawn + tf.cumsum(tf.cast(rows, tf.int64), exclusive=True)  # [B], counted over all epochs
        self._drawn.assign_add(tf.reduce_sum(tf.cast(rows, tf.int64)))
        epochs = (numbers // count)[:, tf.newaxis]
        seeds = tf.concat([tf.tile(self._epoch_seed[tf.newaxis], [self.batch_size, 1]), epochs], axis=1)  # [B, 3]
        # tf.random.experimental.index_shuffle takes a single seed, not one for each index.
        return tf.raw_ops.RandomIndexShuffle(
            index=numbers % count, seed=tf.cast(seeds, tf.int32), max_index=count - 1, rounds=4
        )

    def _draw_order(self) -> tf.Tensor:
        """Returns the signed codes of each row's vignette in random order, padded with 0; int32 `[B, C]`."""
        within = tf.sequence_mask(self._evidence_total(), self._card_width)  # [B, C]
        places = tf.gather(self._offsets, self._vignette)[:, tf.newaxis] + tf.range(self._card_width, dtype=tf.int64)
        codes = tf.gather(self._signed_codes, tf.where(within, places, 0))
        keys = self._generator.uniform([self.batch_size, self._card_width])  # in [0, 1)
        order = tf.argsort(tf.where(within, keys, 1.0), axis=-1, stable=True)
        return tf.gather(tf.where(within, tf.cast(codes, tf.int32), 0), order, batch_dims=1)


def action_spec() -> tensor_spec.BoundedTensorSpec:
    """Returns the spec of an action: int32 scalar in `[0, A)`."""
    return tensor_spec.BoundedTensorSpec([], tf.int32, 0, NUM_ACTIONS - 1, name="action")


def time_step_spec(evidence_count: int) -> ts.TimeStep:
    """Returns the spec of the environment's time steps for E pieces of evidence."""
    observation = Observation(
        state=tensor_spec.BoundedTensorSpec([evidence_count], tf.float32, -1.0, 1.0, name="state"),
        forced=tf.TensorSpec([], tf.bool, name="forced"),
    )
    reward = tensor_spec.BoundedTensorSpec([NUM_DECISIONS], tf.float32, 0.0, 1.0, name="reward")
    return ts.time_step_spec(observation, reward)

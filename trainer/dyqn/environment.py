"""The vignette environment: a batched, in-graph `TFEnvironment` (paper, section "The Vignette environment").

An episode is one vignette. Its evidence is put into a random order when it is drawn. One piece is known at the start,
and each `ask` reveals the next one, which is the same as revealing a missing piece uniformly at random. As the order is
drawn in advance, the environment knows what asking would have revealed even if the agent triages: the state of the LAST
time step is that *ask successor*.

The vignettes are in memory as compressed sparse rows, with two or four bytes for each piece of evidence.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.environments import tf_environment
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action, is_forced
from trainer.data import state
from trainer.data.state import Vignettes
from trainer.graph.rewards import counterfactual_reward


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
    ):
        """Makes the environment; every row starts its first episode on `reset`.

        Args:
            vignettes: V vignettes.
            evidence_count: E, the width of the state.
            mode: training or evaluation.
            generator: draws vignettes and the order of their evidence.
            training_rows: B in training; in evaluation B is V.
        """
        counts = np.diff(vignettes.offsets)
        if not len(counts) or counts.min() < 1 or vignettes.decision_counts.sum(axis=1).min() < 1:
            raise ValueError("expected at least one vignette, each with evidence and decisions")
        self._evidence_count = evidence_count
        self._width = int(counts.max())
        self._mode = mode
        self._generator = generator
        self._offsets = tf.constant(vignettes.offsets, tf.int64)
        self._signed_codes = tf.constant(vignettes.signed_codes)
        self._decision_counts = tf.constant(vignettes.decision_counts)
        batch_size = training_rows if mode.training else len(counts)
        self._vignette = tf.Variable(tf.zeros([batch_size], tf.int64), name="vignette")
        self._order = tf.Variable(tf.zeros([batch_size, self._width], tf.int32), name="order")
        self._revealed = tf.Variable(tf.zeros([batch_size], tf.int32), name="revealed")
        self._questions = tf.Variable(tf.zeros([batch_size], tf.int32), name="questions")
        self._step_type = tf.Variable(tf.fill([batch_size], ts.StepType.LAST), name="step_type")
        super().__init__(time_step_spec(evidence_count), action_spec(), batch_size)

    @property
    def state_variables(self) -> dict[str, tf.Variable]:
        """Everything that changes during episodes, except for the generator; for checkpoints."""
        return {
            "vignette": self._vignette,
            "order": self._order,
            "revealed": self._revealed,
            "questions": self._questions,
            "step_type": self._step_type,
        }

    @property
    def signed_codes(self) -> tf.Tensor:
        """int32 `[B, M]`: the state of each row's current time step as signed codes, M the largest vignette."""
        # Triage reveals nothing; the LAST state only shows what asking would have revealed.
        shows = self._is_last() & self._mode.counterfactual
        visible = self._revealed + tf.cast(shows, tf.int32)
        shown = tf.minimum(visible, self._evidence_total())
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
        exhausted = self._mode.training & (self._revealed >= self._evidence_total())
        return is_forced(self._questions, self._mode.max_questions, exhausted)

    def _evidence_total(self) -> tf.Tensor:
        starts = tf.gather(self._offsets, self._vignette)
        return tf.cast(tf.gather(self._offsets, self._vignette + 1) - starts, tf.int32)  # [B]

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
        asking = (action == Action.ASK) & ~starting
        legal = tf.debugging.Assert(~tf.reduce_any(asking & forced), ["the action is ask, but triage is forced"])
        with tf.control_dependencies([legal] if legal is not None else []):
            self._questions.assign_add(tf.cast(asking, tf.int32))
        revealed = tf.minimum(self._revealed + tf.cast(asking, tf.int32), self._evidence_total())
        self._revealed.assign(revealed)
        self._step_type.assign(tf.where(asking, ts.StepType.MID, ts.StepType.LAST))
        tf.cond(tf.reduce_any(starting), lambda: self._begin(starting), tf.no_op)
        return self._current_time_step()

    def _begin(self, rows: tf.Tensor) -> tf.Operation:
        """Starts a new episode in each of `rows`, bool `[B]`."""
        self._vignette.assign(tf.where(rows, self._next_vignettes(), self._vignette))
        self._order.assign(tf.where(rows[:, tf.newaxis], self._draw_order(), self._order))
        self._revealed.assign(tf.where(rows, 1, self._revealed))
        self._questions.assign(tf.where(rows, 0, self._questions))
        self._step_type.assign(tf.where(rows, ts.StepType.FIRST, self._step_type))
        return tf.no_op()

    def _next_vignettes(self) -> tf.Tensor:
        """Returns the vignettes of new episodes, int64 `[B]`: drawn in training; in evaluation row v plays v."""
        if not self._mode.training:
            return tf.range(self.batch_size, dtype=tf.int64)
        count = tf.shape(self._decision_counts, tf.int64)[0]
        return self._generator.uniform([self.batch_size], maxval=count, dtype=tf.int64)

    def _draw_order(self) -> tf.Tensor:
        """Returns the signed codes of each row's vignette in random order, padded with 0; int32 `[B, M]`."""
        within = tf.sequence_mask(self._evidence_total(), self._width)  # [B, M]
        places = tf.gather(self._offsets, self._vignette)[:, tf.newaxis] + tf.range(self._width, dtype=tf.int64)
        codes = tf.gather(self._signed_codes, tf.where(within, places, 0))
        keys = self._generator.uniform([self.batch_size, self._width])  # in [0, 1)
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

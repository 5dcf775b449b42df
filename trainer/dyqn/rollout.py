"""Plays one evaluation episode of every vignette, in large batches."""

from collections.abc import Iterable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts

from schemas.triage import Action
from trainer.data.state import Vignettes
from trainer.dyqn.environment import Mode, VignetteEnvironment, action_spec, time_step_spec
from trainer.dyqn.policy import QPolicy
from trainer.graph import rewards
from trainer.graph.decide import NEUTRAL, Heads, OperatingPoint
from trainer.graph.rules import RuleGraph

ROWS_AT_ONCE = 16_384
"""Maximum number of vignettes in a batch, which keeps its dense states below about 100 MB."""


class Outcomes(NamedTuple):
    """How the episodes ended: K random evidence orders of V vignettes."""

    decisions: np.ndarray  # int32 [K, V], column of the triage decision
    questions: np.ndarray  # int32 [K, V], number of questions asked
    evidence_seen: np.ndarray  # int32 [K, V], pieces of evidence known at the decision, the first one included
    forced: np.ndarray  # bool [K, V], the question limit forced the decision
    heads: Heads = {}  # noqa: RUF012
    """The network's outputs at the decision, `[K, V, ...]`; empty for policies without one."""


class Slice(NamedTuple):
    """Some vignettes of a split, in the form of `trainer.data.state.Vignettes`."""

    offsets: np.ndarray
    signed_codes: np.ndarray
    decision_counts: np.ndarray


class Rollout:
    """Plays `policy` over vignettes. Only `max_questions` forces a decision, not the end of the evidence.

    A policy whose info is a dict, such as `QPolicy`, provides its heads. It must decide only from the observation:
    it is called only once for equal observations of an episode.
    """

    def __init__(self, vignettes: Vignettes, evidence_count: int, max_questions: int, policy: tf_policy.TFPolicy):
        self._generator = tf.random.Generator.from_seed(0, alg="philox")
        self._max_questions = max_questions
        mode = Mode(training=False, max_questions=max_questions)
        self._parts = [
            self._compile(VignetteEnvironment(part, evidence_count, mode, self._generator), policy)
            for part in slices(vignettes)
        ]

    def run(self, seeds: Iterable[int]) -> Outcomes:
        """Plays every vignette once for each seed; a seed decides the evidence orders, whatever the policy does."""
        rows = []
        for seed in seeds:
            parts = []
            own = np.random.SeedSequence(seed).generate_state(len(self._parts))
            for number, run_part in enumerate(self._parts):
                # Otherwise a part's orders would depend on the steps before it, each of which draws numbers.
                self._generator.reset_from_seed(int(own[number]) if number else seed)
                parts.append(run_part())
            rows.append(tf.nest.map_structure(lambda *each: np.concatenate(each), *parts))
        return tf.nest.map_structure(lambda *each: np.stack(each), *rows)

    def _compile(self, environment: VignetteEnvironment, policy: tf_policy.TFPolicy) -> tf.types.experimental.Callable:
        rows = environment.batch_size
        heads = policy.info_spec if isinstance(policy.info_spec, dict) else {}

        def body(_: tf.Tensor, outcome: Outcomes, done: tf.Tensor, judged: tf.Tensor) -> tuple[tf.Tensor, ...]:
            before, seen = environment.current_time_step(), environment.evidence_seen
            if heads:
                decided = _decide(policy, before, done, ~done & ((seen > judged) | before.observation.forced))
            else:
                decided = policy.action(before)
            after = environment.step(decided.action)
            deciding = after.is_last() & ~done  # rows that are done start new episodes, which are ignored
            now = Outcomes(
                decided.action,
                environment.questions_asked,
                environment.evidence_seen,
                before.observation.forced,
                decided.info if heads else {},
            )
            chosen = tf.nest.map_structure(lambda new, old: _where_rows(deciding, new, old), now, outcome)
            done |= deciding
            return ~tf.reduce_all(done), chosen, done, seen

        def run_part() -> Outcomes:
            environment.reset()
            integers = tf.zeros([rows], tf.int32)
            flags = tf.zeros([rows], tf.bool)
            nothing = {head: tf.zeros([rows, *spec.shape]) for head, spec in heads.items()}
            empty = Outcomes(integers, integers, integers, flags, nothing)
            _, outcome, *_ = tf.while_loop(
                lambda going, *_: going,
                body,
                (tf.constant(True), empty, flags, integers),
                maximum_iterations=self._max_questions + 1,
                parallel_iterations=1,
            )
            return outcome

        return tf.function(run_part, autograph=False)


def _decide(
    policy: tf_policy.TFPolicy, time_step: ts.TimeStep, done: tf.Tensor, judged: tf.Tensor
) -> policy_step.PolicyStep:
    """Returns the policy's actions and heads, computed only for the rows `judged`, bool `[B]`.

    Most episodes end early, and many questions are in vain. A row that is neither done nor judged has asked in the same
    state before, and asks again. Rows that are `done` have an arbitrary action. Heads of rows not judged are 0.
    """
    places = tf.where(judged)  # [R, 1]
    answer = policy.action(tf.nest.map_structure(lambda column: tf.gather_nd(column, places), time_step))
    otherwise = tf.where(done, int(Action.RED), int(Action.ASK))
    return policy_step.PolicyStep(
        tf.tensor_scatter_nd_update(otherwise, places, answer.action),
        info={
            head: tf.scatter_nd(places, values, [tf.size(done, tf.int64), *values.shape[1:]])
            for head, values in answer.info.items()
        },
    )


def _where_rows(chosen: tf.Tensor, new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
    """Returns the rows of `new` that are `chosen`, bool `[B]`, and the other rows of `old`; `[B]` or `[B, A]`."""
    return tf.where(chosen if new.shape.rank == 1 else chosen[:, tf.newaxis], new, old)


def slices(vignettes: Vignettes) -> list[Slice]:
    """Returns the vignettes in parts of at most `ROWS_AT_ONCE`, in their order."""
    parts = []
    for start in range(0, len(vignettes.decision_counts), ROWS_AT_ONCE):
        offsets = vignettes.offsets[start : start + ROWS_AT_ONCE + 1]
        parts.append(
            Slice(
                offsets - offsets[0],
                vignettes.signed_codes[offsets[0] : offsets[-1]],
                vignettes.decision_counts[start : start + ROWS_AT_ONCE],
            )
        )
    return parts


def order_seeds(seed: int, orders: int) -> list[int]:
    """Returns the seed of each of `orders` random evidence orders."""
    return [int(state) for state in np.random.SeedSequence(seed).generate_state(orders)]


def greedy_policy(network: keras.Model, rules: RuleGraph | None = None, point: OperatingPoint = NEUTRAL) -> QPolicy:
    """Returns the policy without noise of a Q-network; it obeys `rules`."""
    return QPolicy(time_step_spec(network.input_shape[-1]), action_spec(), network, rules=rules, point=point)


METRICS = ("appropriateness", "safety", "questions")


class EpisodeWindow(tf.Module):
    """The metrics of the last `episodes` finished episodes."""

    def __init__(self, episodes: int):
        super().__init__(name="window")
        self._rows = tf.Variable(tf.zeros([episodes, len(METRICS)]), name="rows")
        self._finished = tf.Variable(0, dtype=tf.int64, name="finished")

    def record(self, decisions: tf.Tensor, decision_counts: tf.Tensor, questions: tf.Tensor) -> None:
        """Adds finished episodes, at most as many as the window holds.

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
        """Returns the mean of each metric over the window; empty before the end of the first episode."""
        held = min(int(self._finished), self._rows.shape[0])
        if not held:
            return {}
        return dict(zip(METRICS, self._rows[:held].numpy().mean(axis=0).tolist(), strict=True))

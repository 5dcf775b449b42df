"""Plays one evaluation episode of every vignette, all of them in one batch."""

from collections.abc import Iterable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy

from trainer.environment import Mode, VignetteEnvironment, Vignettes, action_spec, time_step_spec
from trainer.policy import QPolicy

ROWS_AT_ONCE = 16_384
"""Vignettes in one batch; more are played in several, so that the dense states of a batch stay below ~100 MB."""


class Outcomes(NamedTuple):
    """How the episodes ended: K random evidence orders of V vignettes."""

    decisions: np.ndarray  # int32 [K, V], column of the triage decision
    questions: np.ndarray  # int32 [K, V], number of questions asked
    evidence_seen: np.ndarray  # int32 [K, V], pieces of evidence known at the decision, the first one included
    forced: np.ndarray  # bool [K, V], the question limit forced the decision


class Slice(NamedTuple):
    """Consecutive vignettes of a split, in the form of `trainer.environment.Vignettes`."""

    offsets: np.ndarray
    signed_codes: np.ndarray
    decision_counts: np.ndarray


class Rollout:
    """Plays `policy` over vignettes, never forced by exhaustion; forced at `max_questions` (docs/paper.md)."""

    def __init__(self, vignettes: Vignettes, evidence_count: int, max_questions: int, policy: tf_policy.TFPolicy):
        self._generator = tf.random.Generator.from_seed(0, alg="philox")
        self._max_questions = max_questions
        mode = Mode(training=False, max_questions=max_questions)
        self._plays = [
            self._compile(VignetteEnvironment(part, evidence_count, mode, self._generator), policy)
            for part in _slices(vignettes)
        ]

    def run(self, seeds: Iterable[int]) -> Outcomes:
        """Plays every vignette once for each seed; a seed decides the evidence orders."""
        rows = []
        for seed in seeds:
            self._generator.reset_from_seed(seed)
            parts = [play() for play in self._plays]
            rows.append([np.concatenate(columns) for columns in zip(*parts, strict=True)])
        return Outcomes(*(np.stack(columns) for columns in zip(*rows, strict=True)))

    def _compile(self, environment: VignetteEnvironment, policy: tf_policy.TFPolicy) -> tf.types.experimental.Callable:
        rows = environment.batch_size

        def body(_: tf.Tensor, outcome: Outcomes, done: tf.Tensor) -> tuple[tf.Tensor, Outcomes, tf.Tensor]:
            before = environment.current_time_step()
            action = policy.action(before).action
            after = environment.step(action)
            deciding = after.is_last() & ~done  # rows that are done begin anew; what they do then is not looked at
            now = Outcomes(
                action,
                environment.questions_asked,
                environment.evidence_seen,
                before.observation.forced,
            )
            chosen = tf.nest.map_structure(lambda new, old: tf.where(deciding, new, old), now, outcome)
            done |= deciding
            return ~tf.reduce_all(done), chosen, done

        def play() -> Outcomes:
            environment.reset()
            integers = tf.zeros([rows], tf.int32)
            flags = tf.zeros([rows], tf.bool)
            empty = Outcomes(integers, integers, integers, flags)
            _, outcome, _ = tf.while_loop(
                lambda going, *_: going,
                body,
                (tf.constant(True), empty, flags),
                maximum_iterations=self._max_questions + 1,
                parallel_iterations=1,
            )
            return outcome

        return tf.function(play, autograph=False)


def _slices(vignettes: Vignettes) -> list[Slice]:
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


def greedy_policy(network: keras.Model) -> QPolicy:
    """Returns the policy without noise of a Q-network from states `[B, E]` to Q-values `[B, A]`."""
    return QPolicy(time_step_spec(network.input_shape[-1]), action_spec(), network)

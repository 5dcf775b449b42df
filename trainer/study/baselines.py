"""The agents without reinforcement learning (paper, section "Baselines"): what they decide on V vignettes."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action
from trainer.dyqn.environment import action_spec, time_step_spec
from trainer.dyqn.rollout import Outcomes, Rollout
from trainer.study.state_values import TriageValues
from trainer.vignettes.arrays import VignetteArrays
from trainer.vignettes.state import Vignettes, sparse_states


class RandomPolicy(tf_policy.TFPolicy):
    """Takes each of the five actions with equal probability; each of the four triage decisions if triage is forced."""

    def __init__(self, evidence_count: int, generator: tf.random.Generator):
        """Makes the policy.

        Args:
            evidence_count: E, the width of the state.
            generator: of the actions.
        """
        self._generator = generator
        super().__init__(time_step_spec(evidence_count), action_spec(), name="random_policy")

    def _variables(self) -> Sequence[tf.Variable]:
        return []

    def _action(self, time_step: ts.TimeStep, policy_state: Any, seed: Any = None) -> policy_step.PolicyStep:
        del seed  # randomness comes from the generator
        forced = time_step.observation.forced
        anything = self._generator.uniform(tf.shape(forced), maxval=NUM_ACTIONS, dtype=tf.int32)
        triage = self._generator.uniform(tf.shape(forced), maxval=NUM_DECISIONS, dtype=tf.int32)
        return policy_step.PolicyStep(tf.where(forced, triage, anything), policy_state, ())


def random_outcomes(
    vignettes: Vignettes, evidence_count: int, orders: Iterable[int], seed: int, max_questions: int
) -> Outcomes:
    """Returns the outcomes of the random agent, `[K, V]`.

    Args:
        vignettes: V of them, each with evidence.
        evidence_count: E, the width of the state.
        orders: seeds of K evidence orders.
        seed: of the actions.
        max_questions: after which the agent must triage.
    """
    generator = tf.random.Generator.from_seed(seed, alg="philox")
    return Rollout(vignettes, evidence_count, max_questions, RandomPolicy(evidence_count, generator)).run(orders)


def always_outcomes(decision: Action, vignettes: Vignettes) -> Outcomes:
    """Returns the outcomes of an agent that always gives the same decision, such as the paper's "always green"."""
    nothing: np.ndarray = np.zeros([1, len(vignettes.decision_counts)], np.int32)
    return Outcomes(nothing + int(decision), nothing, nothing + 1, nothing.astype(bool))


def fully_observed_decisions(triage_values: TriageValues, vignettes: VignetteArrays, evidence_count: int) -> np.ndarray:
    """Returns the decisions of a classifier that sees all evidence, int `[1, V]`; ties go to the more urgent one.

    Args:
        triage_values: of an ensemble trained on whole vignettes, see `trainer.study.ensemble`.
        vignettes: V of them.
        evidence_count: E, the width of the state.
    """
    return triage_values(sparse_states(vignettes, evidence_count)).argmax(axis=1)[np.newaxis]

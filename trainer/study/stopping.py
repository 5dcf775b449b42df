"""Finds where an agent with fixed triage values stops, from a table of them and without playing episodes."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas.triage import NUM_DECISIONS
from trainer.dyqn.environment import Mode, VignetteEnvironment
from trainer.dyqn.rollout import Outcomes
from trainer.study.state_values import StateValues, prefixes
from trainer.vignettes.state import Vignettes

AskValues = Callable[[np.ndarray], np.ndarray]
"""From the signed codes of states, int32 `[P, W]` padded with 0, to Q(s, ask), float32 `[P]`."""


class Stops(NamedTuple):
    """The ends of R episodes."""

    place: np.ndarray  # int [R], row of the table at the decision
    decisions: np.ndarray  # int32 [R], column of the triage decision
    questions: np.ndarray  # int32 [R]
    forced: np.ndarray  # bool [R]


def first_stops(triage: np.ndarray, ask: np.ndarray, depths: np.ndarray, max_questions: int) -> Stops:
    """Returns where a greedy agent triages: in the first state with a triage value of at least that of asking.

    As in `trainer.decision.decision` and `trainer.dyqn.rollout`, triage is not forced when the evidence ends, and
    asking then reveals nothing. So an agent that asks in the last state keeps asking until the limit forces it.

    Args:
        triage: float `[R, D, 4]`, values after 1, 2, ... D pieces of evidence.
        ask: float `[R, D]`.
        depths: int `[R]`, number of states in each row, 1 to D; the values after them are ignored. For vignettes with
            more pieces, the last state is the one after `max_questions` questions.
        max_questions: the question limit.
    """
    stops = triage.max(axis=2) >= ask
    stops &= np.arange(ask.shape[1]) < depths[:, np.newaxis]
    stopped = stops.any(axis=1)
    place = np.where(stopped, stops.argmax(axis=1), depths - 1)
    questions = np.where(stopped, place, max_questions)
    decisions = triage[np.arange(len(place)), place].argmax(axis=1)  # ties: the first, more urgent one
    return Stops(place, decisions.astype(np.int32), questions.astype(np.int32), questions >= max_questions)


class EvaluationOrders:
    """Vignettes in random evidence orders, with the triage values of every state that they pass through.

    The orders are those of `trainer.dyqn.rollout.Rollout` for the same vignettes and seeds (up to
    `trainer.dyqn.rollout.ROWS_AT_ONCE` vignettes), so that agents can be compared pairwise.
    """

    def __init__(self, vignettes: Vignettes, values: StateValues, max_questions: int, seeds: Iterable[int]):
        """Judges all states.

        Args:
            vignettes: V of them, each with evidence.
            values: the values of states.
            max_questions: the question limit.
            seeds: of K orders.
        """
        self._max_questions = max_questions
        generator = tf.random.Generator.from_seed(0, alg="philox")
        environment = VignetteEnvironment(vignettes, values.evidence_count, Mode(False, max_questions), generator)
        self._tables = []
        for seed in seeds:
            generator.reset_from_seed(seed)
            environment.reset()
            states = prefixes(environment.state_variables["order"].numpy(), max_questions + 1)
            self._tables.append((states, values.of(states.codes)))

    def outcomes(self, ask_values: AskValues) -> Outcomes:
        """Returns the outcomes of the greedy agent, `[K, V]`, with its Q-values at the decision."""
        rows = []
        for (codes, offsets), triage in self._tables:
            depths = np.diff(offsets)
            values = np.concatenate([triage, ask_values(codes)[:, np.newaxis]], axis=1).astype(np.float32)
            within = np.arange(depths.max()) < depths[:, np.newaxis]  # [V, D]
            table: np.ndarray = np.zeros([*within.shape, NUM_DECISIONS + 1], np.float32)
            table[within] = values
            stops = first_stops(table[..., :NUM_DECISIONS], table[..., NUM_DECISIONS], depths, self._max_questions)
            q_values = table[np.arange(len(depths)), stops.place]
            seen: np.ndarray = (stops.place + 1).astype(np.int32)
            rows.append(Outcomes(stops.decisions, stops.questions, seen, stops.forced, q_values))
        return Outcomes(*(np.stack(columns) for columns in zip(*rows, strict=True)))

"""Where an agent stops whose triage values never change: found in a table of them, without playing the episodes."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas.triage import NUM_DECISIONS
from trainer.dyqn.environment import Mode, VignetteEnvironment, Vignettes
from trainer.dyqn.rollout import Outcomes
from trainer.supervised.state_values import StateValues, prefixes

AskValues = Callable[[np.ndarray], np.ndarray]
"""From the signed codes of states, int32 `[P, W]` padded with 0, to Q(s, ask), float32 `[P]`."""


class Stops(NamedTuple):
    """How R episodes ended."""

    place: np.ndarray  # int [R], row of the table at which the decision fell
    decisions: np.ndarray  # int32 [R], column of the triage decision
    questions: np.ndarray  # int32 [R]
    forced: np.ndarray  # bool [R]


def first_stops(triage: np.ndarray, ask: np.ndarray, depths: np.ndarray, max_questions: int) -> Stops:
    """Returns where a greedy agent triages: in the first state in which a triage value is at least that of asking.

    As in `trainer.dyqn.decision` and `trainer.dyqn.rollout`, nothing forces a triage when the evidence ends, and
    asking there reveals nothing, so that an agent that asks in the last state asks until the limit forces it.

    Args:
        triage: float `[R, D, 4]`, values after 1, 2, ... D pieces of evidence.
        ask: float `[R, D]`.
        depths: int `[R]`, how many states of each row there are, 1 to D; what follows has no meaning. Of a vignette
            with more pieces than that, the last state is the one that `max_questions` questions lead to.
        max_questions: the question limit.
    """
    stops = triage.max(axis=2) >= ask
    stops &= np.arange(ask.shape[1]) < depths[:, np.newaxis]
    stopped = stops.any(axis=1)
    place = np.where(stopped, stops.argmax(axis=1), depths - 1)
    questions = np.where(stopped, place, max_questions)
    decisions = triage[np.arange(len(place)), place].argmax(axis=1)  # ties: the first, which is the more urgent one
    return Stops(place, decisions.astype(np.int32), questions.astype(np.int32), questions >= max_questions)


class EvaluationOrders:
    """Vignettes in random evidence orders, with the triage values of every state on the way.

    The orders are those in which `trainer.dyqn.rollout.Rollout` reveals the evidence of the same vignettes for the same
    seeds (of up to `trainer.dyqn.rollout.ROWS_AT_ONCE` vignettes), so that agents can be compared pair by pair.
    """

    def __init__(self, vignettes: Vignettes, values: StateValues, max_questions: int, seeds: Iterable[int]):
        """Judges all states.

        Args:
            vignettes: V of them, each with evidence.
            values: what judges the states.
            max_questions: after which the agent must triage.
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
        """Returns how the greedy agent ends, `[K, V]`, with its Q-values at the decision."""
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

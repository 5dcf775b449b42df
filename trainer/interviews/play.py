"""Plays interviews in which a policy chooses the questions, and records the network's outputs after each answer.

`lead` plays those of an agent, and `Leaving` gives the decisions that patients get.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from schemas.danger_signs import DangerSigns
from schemas.evidence import Vocabulary
from schemas.safety_rules import RuleSet
from schemas.triage import asks_next
from trainer.data.state import Vignettes, sparse_states
from trainer.graph.decide import Heads, OperatingPoint, best_triage, decide, handed_over
from trainer.graph.mixture import Mixture
from trainer.graph.questions import Network, QuestionGraph
from trainer.graph.rules import RuleGraph
from trainer.interviews.patients import Patients, interviewed_at_home
from triage_runtime.promise import HANDED_OVER

Policy = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From states float32 `[B, E]` and codes that may be asked bool `[B, E]` to those that it asks in one question.

They are cells `[B, T]`, -1 behind the last, and where nothing may be asked.
"""
_GraphMethod = Callable[..., tf.Tensor]  # a method of `QuestionGraph`
INTERVIEW, ALL_EVIDENCE = "interview", "all_evidence"
"""Settings in which an agent decides: after an interview that it leads, or with all the evidence at once."""
_ROWS = 512
_SEED, _SEED_OF_HELD_OUT = 2_024, 2_023  # of what patients answer beyond their cards; unlike the seeds of training


def learned_policy(graph: QuestionGraph) -> Policy:
    """Returns the policy of a model, which asks as `graph` does."""
    asks = tf.function(graph.asks, autograph=False)
    return lambda states, open_codes: asks(tf.constant(states), tf.constant(~open_codes)).numpy()


class InterviewEndings(NamedTuple):
    """How V patients leave their interviews, int `[V]` each."""

    decisions: np.ndarray  # or `HANDED_OVER` where a person decides
    questions: np.ndarray  # asked before


class Interviews(NamedTuple):
    """The interviews of V patients, after 0, 1, ... Q questions."""

    heads: Heads  # float32 [Q + 1, V, ...], what the network says
    revealed: np.ndarray  # int32 [Q, V, T], signed codes that each question made known; 0 for none
    flagged: np.ndarray  # bool [Q + 1, V], a danger sign is open, or nothing is known of age or sex

    def decisions(self) -> np.ndarray:
        """Returns the triage decision after each number of questions, int32 `[Q + 1, V]`."""
        q = self.heads["q"]
        return best_triage(tf.constant(q.reshape(-1, q.shape[2]))).numpy().reshape(q.shape[:2])

    def states(self, patients: Patients) -> np.ndarray:
        """Returns what was known of the V `patients` after each number of questions, int8 `[Q + 1, V, E]`."""
        states = np.repeat(np.where(patients.known, patients.answers, 0)[np.newaxis], len(self.flagged), axis=0)
        for number, revealed in enumerate(self.revealed, start=1):
            row, place = np.nonzero(revealed)
            states[number:, row, np.abs(revealed[row, place]) - 1] = np.sign(revealed[row, place])
        return states

    def ends(self, point: OperatingPoint) -> np.ndarray:
        """Returns the number of questions after which an interview ends, or nothing is left to ask, int `[V]`.

        By the rule `schemas.triage.asks_next`.
        """
        return self.ends_by(self._actions(point), self.decisions())

    def leave(self, patients: Patients, point: OperatingPoint, rules: RuleGraph | None) -> InterviewEndings:
        """Returns how V `patients` leave interviews that obey `rules`.

        They are handed over where the interview ends, also where the agent would ask on and nothing is left, as
        `serving.service.next_step` does.
        """
        actions, decisions = self._actions(point), self.decisions()
        if rules is not None:
            for number, known in enumerate(self.states(patients).astype(np.float32)):
                raised = rules.apply(rules.fired(tf.constant(known)), actions[number], decisions[number])
                actions[number], decisions[number] = (each.numpy() for each in raised)
        ends, everybody = self.ends_by(actions, decisions), np.arange(decisions.shape[1])
        decided = decisions[ends, everybody]
        there = {head: values[ends, everybody] for head, values in self.heads.items()}
        handed = handed_over(there, decided, point)
        return InterviewEndings(np.where(handed, HANDED_OVER, decided), ends)

    def _actions(self, point: OperatingPoint) -> np.ndarray:
        """Returns the action after each number of questions, int32 `[Q + 1, V]`."""
        q = self.heads["q"]
        flat = tf.constant(q.reshape(-1, q.shape[2]))
        here: np.ndarray = np.ones(len(flat), bool)
        return decide(flat, ~here, here, point).numpy().reshape(q.shape[:2])

    def ends_by(self, actions: np.ndarray, decisions: np.ndarray) -> np.ndarray:
        """Returns `ends` with other actions and decisions, `[Q + 1, V]` each."""
        forced: np.ndarray = np.zeros(actions.shape, bool)
        forced[-1] = True
        # Where nothing is left to ask after q questions, question q + 1 is about nothing.
        any_left = np.concatenate([self.revealed.any(axis=2), forced[-1:]])
        asks = asks_next(actions, decisions, forced, must_ask=self.flagged, any_left=any_left)
        return np.asarray((~asks).argmax(axis=0))


def reveals(cells: tf.Tensor, opened: tf.Tensor, answers: tf.Tensor) -> tf.Tensor:
    """Returns the signed codes that questions make known, int32 `[B, G + T]`, 0 for none.

    Where `QuestionGraph.opening` makes something known, `opened` `[B, G]`, that is the question. Otherwise it is about
    `cells` `[B, T]`, -1 for none. `answers`, `[B, E]` in {-1, 0, 1}, are those of the patients.
    """
    cells = tf.cast(tf.where(tf.reduce_any(opened != 0, axis=1, keepdims=True), -1, cells), tf.int32)
    answered = tf.gather(tf.cast(answers, tf.int32), tf.maximum(cells, 0), batch_dims=1)
    return tf.concat([opened, (cells + 1) * answered], axis=1)


def interview(
    patients: Patients,
    network: Network,
    may_ask: _GraphMethod,
    policy: Policy,
    questions: int,
    flags: _GraphMethod | None = None,
    opening: _GraphMethod | None = None,
) -> Interviews:
    """Returns interviews of an agent with patients.

    Args:
        patients: who answer.
        network: that decides.
        may_ask: which codes are open, such as `QuestionGraph.may_ask`.
        policy: chooses what to ask among them.
        questions: number put to each patient, though the agent may stop earlier.
        flags: `open_signs`, which keep interviews going, whoever asks; None where the agent alone ends them.
        opening: what the first question asks, whoever chooses the others; None where they choose it as well.
    """
    if len(patients.answers) > _ROWS:
        starts = range(0, len(patients.answers), _ROWS)
        blocks = (Patients(*(part[start : start + _ROWS] for part in patients)) for start in starts)
        parts = [interview(block, network, may_ask, policy, questions, flags, opening) for block in blocks]
        return tf.nest.map_structure(lambda *each: np.concatenate(each, axis=1), *parts)
    unanswerable = patients.answers == 0
    states = np.where(patients.known, patients.answers, 0).astype(np.float32)
    heads, revealed = [], []
    flagged: np.ndarray = np.zeros((questions + 1, len(states)), bool)
    opened: np.ndarray = np.zeros((len(states), 0), np.int32)
    if opening is not None:
        opened = opening(tf.constant(states), tf.constant(patients.answers)).numpy()
        flagged[0] = opened.any(axis=1)
    for number in range(questions + 1):
        if number:
            open_codes = may_ask(tf.constant(states)).numpy() & ~unanswerable
            cells = policy(states, open_codes)  # [V, T]
            signed = reveals(cells, opened, patients.answers).numpy()
            row, place = np.nonzero(signed)
            states[row, np.abs(signed[row, place]) - 1] = np.sign(signed[row, place])
            revealed.append(signed)
            opened = np.zeros_like(opened)
        heads.append(network(tf.constant(states)))
        if flags is not None:
            flagged[number] |= flags(tf.constant(states), tf.constant(unanswerable)).numpy().any(axis=1)
    return Interviews(tf.nest.map_structure(lambda *each: np.stack(each), *heads), np.stack(revealed), flagged)


def lead(patients: Patients, network: Network, graph: QuestionGraph, questions: int) -> Interviews:
    """Returns `interview` as an agent leads it: `graph` opens it, asks, and goes on while a danger sign is open."""
    flags = tf.function(graph.open_signs, autograph=False)
    return interview(patients, network, graph.may_ask, learned_policy(graph), questions, flags, graph.opening)


def led_states(
    graph: QuestionGraph, vocabulary: Vocabulary, vignettes: Vignettes, whole: bool, questions: int
) -> np.ndarray:
    """Returns the states int8 `[M, Q + 1, E]` of interviews with held-out patients; no network has a part in them."""
    patients = interviewed_at_home(vignettes, whole, graph, vocabulary, _SEED_OF_HELD_OUT)
    played = lead(patients, lambda states: {"q": tf.zeros([states.shape[0], 1])}, graph, questions)
    return played.states(patients).transpose(1, 0, 2)


class Leader(NamedTuple):
    """An agent that leads interviews, at whatever operating point."""

    network: keras.Model  # with probabilities
    vocabulary: Vocabulary  # of E pieces of evidence
    mixture: Mixture
    rules: RuleSet
    signs: DangerSigns
    question_limit: int


class Leaving:
    """With which decision patients leave an agent, in each setting.

    A patient comes with the first piece of evidence of a vignette, and answers as it says. What it leaves open, a whole
    patient lacks; the patient of a card answers it like a patient of the agent's mixture who has such a card.
    """

    def __init__(self, leader: Leader, vignettes: Vignettes, whole: bool):
        self._leader = leader
        self._graph = QuestionGraph(leader.mixture, leader.vocabulary, leader.rules.rules, leader.signs)
        self._patients = interviewed_at_home(vignettes, whole, self._graph, leader.vocabulary, _SEED)
        self._cards = tf.constant(sparse_states(vignettes, len(leader.vocabulary)).toarray())
        rules = leader.rules.rules
        self._rules = RuleGraph(rules, leader.vocabulary) if rules else None

    def decisions(self, point: OperatingPoint) -> dict[str, np.ndarray]:
        """Returns the decisions int `[V]` at an operating point by setting, after safety rules.

        They are `HANDED_OVER` where a person decides, as callers want who ask for handing over.
        """
        heads = self._leader.network(self._cards)
        at_once = best_triage(heads["q"])
        if self._rules is not None:
            at_once = self._rules.apply(self._rules.fired(self._cards), at_once, at_once).best_triage
        at_once = np.where(handed_over(heads, at_once.numpy(), point), HANDED_OVER, at_once)
        return {INTERVIEW: self.endings(point).decisions, ALL_EVIDENCE: at_once}

    def endings(self, point: OperatingPoint) -> InterviewEndings:
        """Returns how the V patients leave their interviews at an operating point, after safety rules."""
        return self._interviews.leave(self._patients, point, self._rules)

    @functools.cached_property
    def _interviews(self) -> Interviews:
        network = tf.function(self._leader.network, autograph=False)
        return lead(self._patients, network, self._graph, self._leader.question_limit)

"""Plays interviews in which a policy chooses the questions, and records the network's outputs after each answer."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas.triage import Action
from trainer.decision import rewards
from trainer.decision.decision import OperatingPoint, best_triage, decide, utilities
from trainer.decision.rules import RuleGraph
from trainer.evaluation.patients import Patients
from trainer.evaluation.question_policies import Network, Policy

MayAsk = Callable[[tf.Tensor], tf.Tensor]
"""From states `[B, E]` to codes that are open, bool `[B, E]`, see `trainer.decision.question_graph`."""
Flags = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""From states `[B, E]` and codes not to ask, bool `[B, E]`, to `QuestionGraph.open_red_flags`, bool `[B, E]`."""
Opening = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""From states and answers `[B, E]` to `QuestionGraph.opening`, signed codes int32 `[B, G]`."""
_ROWS = 512
_CANDIDATES = 24
NOTHING, OPENING = -1, -2


class Interviews(NamedTuple):
    """The interviews of V patients, after 0, 1, ... Q questions."""

    outputs: np.ndarray  # float32 [Q + 1, V, O], of the network
    asked: np.ndarray  # int64 [Q, V], cells; `OPENING`, or `NOTHING` where nothing was left to ask
    answers: np.ndarray  # int8 [Q, V] in {-1, 0, 1}
    flagged: np.ndarray  # bool [Q + 1, V], a red flag is open, or nothing is known of age or sex
    opened: np.ndarray  # int32 [V, G], signed codes that an `OPENING`, the first question, made known; 0 for none

    def decisions(self, point: OperatingPoint) -> np.ndarray:
        """Returns the triage decision after each number of questions, int32 `[Q + 1, V]`."""
        flat = tf.constant(self.outputs.reshape(-1, self.outputs.shape[2]))
        return best_triage(flat, point).numpy().reshape(self.outputs.shape[:2])

    def states(self, patients: Patients) -> np.ndarray:
        """Returns what was known of the V `patients` after each number of questions, int8 `[Q + 1, V, E]`."""
        states = np.repeat(np.where(patients.known, patients.answers, 0)[np.newaxis], len(self.outputs), axis=0)
        row, place = np.nonzero(self.opened)
        states[1:, row, np.abs(self.opened[row, place]) - 1] = np.sign(self.opened[row, place])
        number, row = np.nonzero(self.asked >= 0)
        for later in range(len(self.asked)):
            here = number <= later
            states[later + 1, row[here], self.asked[number[here], row[here]]] = self.answers[number[here], row[here]]
        return states

    def ends(self, point: OperatingPoint) -> np.ndarray:
        """Returns the number of questions after which an interview ends, or nothing is left to ask, int `[V]`.

        By the rule of `serving.messages.goes_on`.
        """
        return self._ends(self._actions(point), self.decisions(point))

    def leave(self, patients: Patients, point: OperatingPoint, rules: RuleGraph | None) -> np.ndarray:
        """Returns the decision with which each of V `patients` leaves an interview that obeys `rules`; int `[V]`."""
        actions, decisions = self._actions(point), self.decisions(point)
        if rules is not None:
            for number, known in enumerate(self.states(patients).astype(np.float32)):
                raised = rules.apply(rules.fired(tf.constant(known)), actions[number], decisions[number])
                actions[number], decisions[number] = (each.numpy() for each in raised)
        return decisions[self._ends(actions, decisions), np.arange(decisions.shape[1])]

    def _actions(self, point: OperatingPoint) -> np.ndarray:
        """Returns the action after each number of questions, int32 `[Q + 1, V]`."""
        flat = tf.constant(self.outputs.reshape(-1, self.outputs.shape[2]))
        here: np.ndarray = np.ones(len(flat), bool)
        return decide(flat, ~here, here, point).numpy().reshape(self.outputs.shape[:2])

    def _ends(self, actions: np.ndarray, decisions: np.ndarray) -> np.ndarray:
        asks = (actions == Action.ASK) | (self.flagged & (decisions != Action.RED))
        # Where nothing is left to ask after q questions, question q + 1 is about nothing.
        asks[:-1] &= self.asked != NOTHING
        asks[-1] = False
        return np.asarray((~asks).argmax(axis=0))


def play(
    patients: Patients,
    network: Network,
    may_ask: MayAsk,
    policy: Policy | None,
    questions: int,
    point: OperatingPoint,
    flags: Flags | None = None,
    opening: Opening | None = None,
) -> Interviews:
    """Returns interviews with a number of `questions`.

    Args:
        patients: who answer.
        network: of the agent.
        may_ask: which codes are open.
        policy: chooses among them; None stands for `_clairvoyant`.
        questions: put to each patient, though the agent may stop earlier.
        point: of the agent.
        flags: that keep an interview going, whoever chooses the questions; None where the agent alone ends it.
        opening: what the first question asks, whoever chooses the others; None where they choose it as well.
    """
    parts = [
        _play(
            Patients(*(part[start : start + _ROWS] for part in patients)),
            network,
            may_ask,
            policy,
            questions,
            point,
            flags,
            opening,
        )
        for start in range(0, len(patients.answers), _ROWS)
    ]
    outputs, asked, answers, flagged, opened = zip(*parts, strict=True)
    return Interviews(
        np.concatenate(outputs, axis=1),
        np.concatenate(asked, axis=1),
        np.concatenate(answers, axis=1),
        np.concatenate(flagged, axis=1),
        np.concatenate(opened),
    )


def _play(
    patients: Patients,
    network: Network,
    may_ask: MayAsk,
    policy: Policy | None,
    questions: int,
    point: OperatingPoint,
    flags: Flags | None,
    opening: Opening | None,
) -> Interviews:
    rows = np.arange(len(patients.answers))
    unanswerable = patients.answers == 0
    states = np.where(patients.known, patients.answers, 0).astype(np.float32)
    asked: np.ndarray = np.full((questions, len(rows)), NOTHING)
    answers: np.ndarray = np.zeros((questions, len(rows)), np.int8)
    outputs = []
    flagged: np.ndarray = np.zeros((questions + 1, len(rows)), bool)
    opened: np.ndarray = np.zeros((len(rows), 0), np.int32)
    if opening is not None and questions:
        opened = opening(tf.constant(states), tf.constant(patients.answers)).numpy()
        flagged[0] = opened.any(axis=1)
    for number in range(questions + 1):
        if number:
            open_codes = may_ask(tf.constant(states)).numpy() & ~unanswerable
            if policy is None:
                scores = _clairvoyant(patients, network, states, open_codes, point)
            else:
                scores = policy(states, open_codes)
            left = open_codes.any(axis=1)
            if number == 1 and opened.any():
                row, place = np.nonzero(opened)
                states[row, np.abs(opened[row, place]) - 1] = np.sign(opened[row, place])
                asked[0, row] = OPENING
                left &= ~opened.any(axis=1)
            left = np.flatnonzero(left)
            cells = np.where(open_codes, scores, -np.inf)[left].argmax(axis=1)
            asked[number - 1, left] = cells
            answers[number - 1, left] = states[left, cells] = patients.answers[left, cells]
        outputs.append(np.asarray(network(tf.constant(states))))
        if flags is not None:
            flagged[number] |= flags(tf.constant(states), tf.constant(unanswerable)).numpy().any(axis=1)
    return Interviews(np.stack(outputs), asked, answers, flagged, opened)


def _clairvoyant(
    patients: Patients, network: Network, states: np.ndarray, open_codes: np.ndarray, point: OperatingPoint
) -> np.ndarray:
    """Returns the scores of a policy that knows each answer, the agent's decision after it, and the clinicians'.

    It considers at most `_CANDIDATES` pieces, present ones first. It is greedy, so it is not quite an upper bound.
    """
    keys = np.where(open_codes, 1.0 + (patients.answers > 0), 0.0)
    candidates = np.argsort(-keys, axis=1, kind="stable")[:, :_CANDIDATES]  # [B, C]
    count = candidates.shape[1]
    rows = np.arange(len(states))[:, np.newaxis]
    after = np.repeat(states[:, np.newaxis], count, axis=1)
    after[rows, np.arange(count), candidates] = patients.answers[rows, candidates]
    outputs = tf.convert_to_tensor(network(tf.constant(after.reshape(-1, states.shape[1]))))
    truth = [rule(patients.decision_counts).numpy().astype(float) for rule in (rewards.appropriate, rewards.safe)]
    true = np.repeat((truth[0] + point.safety_weight * truth[1]) / (1 + point.safety_weight), count, axis=0)
    utility = utilities(outputs, point).numpy()
    chosen = best_triage(outputs, point).numpy()
    gained = np.take_along_axis(true, chosen[:, np.newaxis], axis=1)[:, 0]
    # If several answers lead to a right decision, choose the one after which the agent is most certain of it.
    right = np.where(true >= true.max(axis=1, keepdims=True), utility, -np.inf).max(axis=1)
    scores = np.full(states.shape, -1e9)
    np.put_along_axis(scores, candidates, (gained + 0.1 * (right - utility.max(axis=1))).reshape(-1, count), axis=1)
    return scores

"""With which decision patients leave: after an interview that the agent leads, or with all their evidence at once."""

import functools
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from schemas.evidence import Vocabulary
from schemas.safety_rules import RuleSet
from trainer.graph.decide import OperatingPoint, best_triage, handed_over
from trainer.graph.mixture import Mixture
from trainer.graph.questions import QuestionGraph
from trainer.graph.rules import RuleGraph
from trainer.interviews.patients import interviewed
from trainer.interviews.play import Interviews, lead
from trainer.vignettes.state import Vignettes, sparse_states
from triage_runtime.promise import HANDED_OVER

INTERVIEW, ALL_EVIDENCE = SETTINGS = "interview", "all_evidence"
_SEED = 2_024  # of what patients answer beyond their cards; unlike the seeds of training


class Leader(NamedTuple):
    """An agent that leads interviews, at whatever operating point."""

    network: keras.Model  # with probabilities
    vocabulary: Vocabulary  # of E pieces of evidence
    mixture: Mixture
    rules: RuleSet
    question_limit: int


class Leaving:
    """Plays patients with an agent.

    A patient comes with the first piece of evidence of a vignette, and answers as it says. What it leaves open, a whole
    patient lacks; the patient of a card answers it like a patient of the agent's mixture who has such a card.

    Args:
        leader: the agent.
        vignettes: V of them.
        whole: whether vignettes list everything that a patient has.
    """

    def __init__(self, leader: Leader, vignettes: Vignettes, whole: bool):
        self._leader = leader
        count = len(leader.vocabulary)
        generator = tf.random.Generator.from_seed(_SEED, alg="philox")
        like = None if whole else functools.partial(self._graph(OperatingPoint()).patients_like, generator=generator)
        self._patients = interviewed(vignettes, count, like).at_home(leader.vocabulary)
        self._cards = tf.constant(sparse_states(vignettes, count).toarray())
        rules = leader.rules.rules
        self._rules = RuleGraph(rules, leader.vocabulary) if rules else None
        self._interviews = functools.cache(self._play)  # they depend on the safety weight alone

    def decisions(self, point: OperatingPoint) -> dict[str, np.ndarray]:
        """Returns the decisions int `[V]` at an operating point in each of `SETTINGS`, after safety rules.

        They are `HANDED_OVER` where a person decides, as callers want who ask for handing over.
        """
        outputs = self._leader.network(self._cards)
        at_once = best_triage(outputs, point)
        if self._rules is not None:
            at_once = self._rules.apply(self._rules.fired(self._cards), at_once, at_once).best_triage
        at_once = np.where(handed_over(outputs, at_once.numpy(), point), HANDED_OVER, at_once)
        interviews = self._interviews(point.safety_weight)
        return {INTERVIEW: interviews.leave(self._patients, point, self._rules).decisions, ALL_EVIDENCE: at_once}

    def _graph(self, point: OperatingPoint) -> QuestionGraph:
        leader = self._leader
        return QuestionGraph(leader.mixture, leader.vocabulary, leader.rules.rules, point, leader.network)

    def _play(self, safety_weight: float) -> Interviews:
        point = OperatingPoint(safety_weight)
        network = tf.function(self._leader.network, autograph=False)
        return lead(self._patients, network, self._graph(point), self._leader.question_limit, point)

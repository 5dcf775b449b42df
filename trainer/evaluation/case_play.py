"""Plays textbook cases: with all their evidence at once, and as interviews."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.trajectories import time_step as ts

from schemas.evidence import Vocabulary
from schemas.triage import NUM_DECISIONS, Action
from trainer.data import state
from trainer.data.textbook_case import TextbookCase
from trainer.dyqn.environment import Observation
from trainer.evaluation.cases import CaseDecisions
from trainer.graph.closure import Closure
from trainer.graph.decide import OperatingPoint
from trainer.graph.questions import Network, QuestionGraph
from trainer.graph.rules import RuleGraph
from trainer.interviews import play as interviews
from trainer.interviews.patients import Patients


def play_cases(
    policy: tf_policy.TFPolicy, cases: Sequence[TextbookCase], vocabulary: Vocabulary, max_questions: int
) -> CaseDecisions:
    """Returns what the policy decides on each case.

    The interview reveals one piece before the first question and one after each; it ends with the first triage
    decision. A triage is forced after `max_questions` questions, and when all evidence is known, because asking more
    would not change the state. The policy decides from the observation alone.
    """
    codes = _signed_codes(cases, vocabulary)  # [C, W]
    lengths = (codes != 0).sum(axis=1)
    interview = np.full(len(cases), Action.ASK)
    questions: np.ndarray = np.zeros(len(cases), int)
    decided = interview
    for seen in range(1, codes.shape[1] + 1):
        shown = np.where(np.arange(codes.shape[1]) < seen, codes, 0)
        forced = (seen >= lengths) | (seen > max_questions)
        decided = policy.action(_time_step(shown, forced, len(vocabulary))).action.numpy()
        undecided = interview == Action.ASK
        questions[undecided] = seen - 1
        interview = np.where(undecided, decided, interview)
    # In the last round everything is shown and every row is forced.
    return CaseDecisions(
        tuple(map(Action, decided.tolist())), tuple(map(Action, interview.tolist())), tuple(questions.tolist())
    )


def lead_cases(
    network: Network,
    graph: QuestionGraph,
    rules: RuleGraph | None,
    point: OperatingPoint,
    cases: Sequence[TextbookCase],
    vocabulary: Vocabulary,
    max_questions: int,
) -> tuple[tuple[Action, ...], tuple[int, ...]]:
    """Returns the decisions of interviews that the agent leads, and the number of questions of each.

    A patient presents with the first finding of a case, confirms what it lists as present and what follows from that,
    and denies all the rest. Age or sex that a case leaves open, and findings that need an instrument, cannot be asked
    about. The agent obeys `rules`, the same as `graph`, and decides at `point`, without handing over.
    """
    codes = _signed_codes(cases, vocabulary)
    listed = np.maximum(state.from_signed_codes(tf.constant(codes), len(vocabulary)).numpy(), 0)
    has = Closure(vocabulary)(tf.constant(listed)).numpy() > 0
    answers = np.where(has, 1, -1).astype(np.int8)
    for cells in vocabulary.openings.values():
        answers[np.ix_(~has[:, cells].any(axis=1), cells)] = 0
    known = np.arange(len(vocabulary)) == codes[:, :1] - 1
    patients = Patients(known, answers, np.ones((len(cases), NUM_DECISIONS), np.int32)).at_home(vocabulary)
    led = interviews.lead(patients, network, graph, max_questions).leave(patients, point, rules)
    return tuple(map(Action, led.decisions.tolist())), tuple(led.questions.tolist())


def _signed_codes(cases: Sequence[TextbookCase], vocabulary: Vocabulary) -> np.ndarray:
    """Returns int32 `[C, W]`, see `trainer.data.state`: the evidence of each case in its order, padded with 0."""
    width = max(len(case.codes) for case in cases)
    codes: np.ndarray = np.zeros((len(cases), width), np.int32)
    for row, case in enumerate(cases):
        signed = state.signed_codes(case.present, case.absent, vocabulary)
        codes[row, : len(signed)] = signed
    return codes


def _time_step(signed_codes: np.ndarray, forced: np.ndarray, evidence_count: int) -> ts.TimeStep:
    rows = len(signed_codes)
    return ts.TimeStep(
        step_type=tf.fill([rows], ts.StepType.MID),
        reward=tf.zeros([rows, NUM_DECISIONS]),
        discount=tf.ones([rows]),
        observation=Observation(
            state=state.from_signed_codes(tf.constant(signed_codes), evidence_count), forced=tf.constant(forced)
        ),
    )

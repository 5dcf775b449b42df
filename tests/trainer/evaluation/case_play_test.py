"""Which states a policy sees when it plays textbook cases, and what ends the interview."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.trajectories import policy_step

from schemas.evidence import Evidence, Vocabulary
from schemas.safety_rules import SafetyRule
from schemas.triage import Action
from tests.builders import symptoms
from trainer.data.textbook_case import TextbookCase
from trainer.dyqn.environment import action_spec, time_step_spec
from trainer.evaluation.case_play import lead_cases, play_cases
from trainer.graph.decide import NEUTRAL
from trainer.graph.mixture import Mixture
from trainer.graph.questions import QuestionGraph
from trainer.graph.rules import RuleGraph

R, Y, G, B, ASK = Action
VOCABULARY = symptoms(*"abcd")


class Scripted(tf_policy.TFPolicy):
    """Says Red once d is known to be absent, else asks; Green where it may not ask. Keeps what it sees."""

    def __init__(self):
        super().__init__(time_step_spec(4), action_spec())
        self.seen = []

    def _variables(self):
        return ()

    def _action(self, time_step, policy_state, seed=None):
        states, forced = time_step.observation.state, time_step.observation.forced
        self.seen.append((states.numpy(), forced.numpy().tolist()))
        otherwise = tf.where(forced, int(G), int(ASK))
        return policy_step.PolicyStep(tf.where(states[:, 3] < 0, int(R), otherwise), policy_state)


def case(present, absent=""):
    return TextbookCase(f"{present}{absent}", "A case", "urgent", (Y,), tuple(present), tuple(absent))


def test_the_interview_follows_the_file_and_ends_with_the_first_triage():
    policy = Scripted()
    played = play_cases(policy, [case("ba", "d"), case("c")], VOCABULARY, 23)
    # b; b and a; all three. The second case has one piece: it is forced at once, and stays as it is.
    np.testing.assert_array_equal([states[0] for states, _ in policy.seen], [[0, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, -1]])
    np.testing.assert_array_equal([states[1] for states, _ in policy.seen], [[0, 0, 1, 0]] * 3)
    assert [forced for _, forced in policy.seen] == [[False, True], [False, True], [True, True]]
    assert played.interview == (R, G)
    assert played.questions == (2, 0)
    assert played.all_evidence == (R, G)


def test_a_decision_before_the_last_piece_counts_in_the_interview_only():
    class Hasty(Scripted):
        def _action(self, time_step, policy_state, seed=None):
            known = tf.reduce_sum(tf.abs(time_step.observation.state), axis=1)
            decided = tf.where(known == 2, int(B), tf.where(time_step.observation.forced, int(Y), int(ASK)))
            return policy_step.PolicyStep(decided, policy_state)

    played = play_cases(Hasty(), [case("abc")], VOCABULARY, 23)
    assert played.interview == (B,)
    assert played.questions == (1,)
    assert played.all_evidence == (Y,)


@pytest.mark.parametrize(("max_questions", "questions"), [(1, 1), (2, 2), (3, 3), (9, 3)])
def test_the_interview_is_forced_at_the_question_limit_or_when_everything_is_known(max_questions, questions):
    played = play_cases(Scripted(), [case("abcd")], VOCABULARY, max_questions)
    assert played.questions == (questions,)
    assert played.interview == (G,)


def _sure_of_green(states):
    """Returns Q-values with which an agent decides Green at once."""
    return {"q": tf.tile(tf.constant([[0.5, 0.5, 0.95, 0.5, 0.0]]), [tf.shape(states)[0], 1])}


def test_a_patient_whom_the_agent_leads_denies_what_the_case_does_not_list():
    """With pain, a collapse is a red flag; a low pressure is one, too, but takes an instrument."""
    codes = {"pain": "", "collapse": "", "pressure": "a cuff"}
    vocabulary = Vocabulary(
        Evidence(code, "symptom", code, f"{code}?", instrument=tool) for code, tool in codes.items()
    )
    present = np.array([[0.5, 0.2, 0.2]], np.float32)
    mixture = Mixture(np.zeros(1, np.float32), present, np.full([1, 8], 0.5, np.float32), 1 - present)
    flags = tuple(
        SafetyRule(code, "A red flag.", R, True, all_of=(("pain", True), (code, True)))
        for code in ("collapse", "pressure")
    )

    def lead(rules):
        graph = QuestionGraph(mixture, vocabulary, rules)
        cases = [
            TextbookCase("a", "A case", "emergency", (R,), ("pain", "pressure", "collapse"), ()),
            TextbookCase("b", "A case", "emergency", (R,), ("pain", "pressure"), ("collapse",)),
        ]
        obeyed = RuleGraph(rules, vocabulary) if rules else None
        return lead_cases(_sure_of_green, graph, obeyed, NEUTRAL, cases, vocabulary, 23)

    # Nobody asks after the pressure, which comes before the collapse in the file. Without rules, nothing is asked.
    assert lead(flags) == ((R, G), (1, 1))
    assert lead(()) == ((G, G), (0, 0))

"""What comes next after an answer, and when and why a case is handed over to a person."""

import pytest

from schemas.evidence import Evidence, Vocabulary
from serving.service.next_step import set_next_step
from serving.wires.message_json import message_figures
from triage.v1 import triage_pb2

VOCABULARY = Vocabulary([Evidence("fever", "symptom", "Fever", "Fever?")])
ASK, YELLOW = triage_pb2.TRIAGE_ACTION_ASK, triage_pb2.TRIAGE_ACTION_YELLOW
RED_FLAG = triage_pb2.QUESTION_REASON_RED_FLAG
KNOWN = triage_pb2.EvidenceState(evidence=[triage_pb2.Evidence(code="fever", status=1)])
SAFE = [triage_pb2.DecisionProbability(decision=decision, safe=safe) for decision, safe in ((1, 1.0), (2, 0.8))]


def answer(**fields):
    return triage_pb2.TriageResponse(**{"action": YELLOW, "best_triage": YELLOW, "probabilities": SAFE, **fields})


@pytest.mark.parametrize(
    ("response", "below", "reason"),
    [
        (answer(), 0.75, None),
        (answer(), 0.85, "unsure"),
        (answer(best_triage=1, action=1), 0.85, None),  # Red is safe
        (answer(probabilities=[]), 0.85, None),
        (answer(is_novel=True), 0.0, "novel"),
        (answer(conflicting_codes=["fever"], is_novel=True), 0.0, "contradictory"),
        # While the agent asks, the next answer may help; but not where answers contradict each other.
        (answer(action=ASK, is_novel=True), 0.85, None),
        (answer(action=ASK, conflicting_codes=["fever"]), 0.0, "contradictory"),
    ],
)
def test_the_reason_follows_from_the_answer(response, below, reason):
    action = response.action
    response.next_questions.add(code="fever", worth_asking=True)
    set_next_step([KNOWN], [response], VOCABULARY, below, with_questions=True)
    assert message_figures(response)["deferred"] == reason
    assert message_figures(response)["next"] == ("hand_over" if reason else "ask" if action == ASK else "decide")
    assert response.action == action, "old callers see what they saw"
    assert bool(response.next_questions) == (reason is None), "nothing is asked of a case that is handed over"


RED_POSSIBLE = [
    triage_pb2.DecisionProbability(decision=decision, safe=1.0, appropriate=red)
    for decision, red in ((1, 0.25), (2, 0.75))
]


@pytest.mark.parametrize(("red", "reason"), [(None, None), (0.3, None), (0.25, "unsure")])
def test_a_model_may_hand_over_what_may_be_red(red, reason):
    for response, expected in (
        (answer(probabilities=RED_POSSIBLE), reason),
        (answer(probabilities=RED_POSSIBLE, best_triage=1, action=1), None),  # Red itself
        (answer(probabilities=RED_POSSIBLE, action=ASK), None),
        (answer(probabilities=[]), None),
    ):
        set_next_step([KNOWN], [response], VOCABULARY, 0.0, red)
        assert message_figures(response)["deferred"] == expected


@pytest.mark.parametrize(
    ("fields", "questions", "step"),
    [
        ({"action": ASK}, None, "ask"),  # without questions the action says it
        ({}, None, "decide"),
        ({"action": ASK}, [{"worth_asking": True}], "ask"),
        ({"action": ASK}, [{"worth_asking": False}, {"worth_asking": True}], "ask"),
        ({"action": ASK}, [{"worth_asking": False}], "decide"),
        ({"action": ASK}, [], "decide"),  # nothing is left to ask
        ({}, [{"reason": RED_FLAG}], "ask"),
        ({}, [{"one_of": ["fever"]}], "ask"),
        ({"action": 1, "best_triage": 1}, [{"reason": RED_FLAG}], "decide"),  # nothing is more urgent
        ({"action": ASK, "forced": True}, [], "hand_over"),  # nothing is known, and nobody can say more
        ({"action": ASK, "forced": True}, None, "hand_over"),
    ],
)
def test_the_next_step_follows_from_the_answer_and_its_questions(fields, questions, step):
    response = answer(**fields, next_questions=[triage_pb2.NextQuestion(**each) for each in questions or ()])
    set_next_step([KNOWN], [response], VOCABULARY, None, with_questions=questions is not None)
    assert message_figures(response)["next"] == step

"""When a case is handed over to a person, and why."""

import pytest

from schemas.evidence import Evidence, Vocabulary
from serving.messages import goes_on
from serving.service.deferral import defer
from serving.wires.message_json import message_figures
from triage.v1 import triage_pb2

VOCABULARY = Vocabulary([Evidence("fever", "symptom", "Fever", "Fever?")])
ASK, YELLOW = triage_pb2.TRIAGE_ACTION_ASK, triage_pb2.TRIAGE_ACTION_YELLOW
INFORMATION, RED_FLAG = triage_pb2.QUESTION_REASON_INFORMATION, triage_pb2.QUESTION_REASON_RED_FLAG
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
    defer([triage_pb2.EvidenceState()], [response], VOCABULARY, below)
    assert message_figures(response)["deferred"] == reason
    assert goes_on(response) == (action == ASK and reason is None)
    assert response.action == action, "old callers see what they saw"


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
        defer([triage_pb2.EvidenceState()], [response], VOCABULARY, 0.0, red)
        assert message_figures(response)["deferred"] == expected


@pytest.mark.parametrize(
    ("worth", "fields", "reason"),
    [
        ([True], {}, None),
        ([False], {}, "unsure"),
        ([], {}, "unsure"),
        ([], {"is_novel": True}, "novel"),
        ([], {"forced": True}, None),  # it asks on nothing: there is no decision to be unsure of
    ],
)
def test_an_agent_that_asks_without_a_question_that_is_worth_it_is_judged_as_having_decided(worth, fields, reason):
    questions = [triage_pb2.NextQuestion(code="fever", reason=INFORMATION, worth_asking=each) for each in worth]
    response = answer(action=ASK, next_questions=questions, **fields)
    for put, expected in ((False, None), (True, reason)):
        defer([triage_pb2.EvidenceState()], [response], VOCABULARY, 0.85, put=put)
        assert message_figures(response)["deferred"] == expected


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"reason": RED_FLAG}, None),  # a yes may fire a rule: the interview goes on
        ({"one_of": ["fever"], "reason": INFORMATION}, None),
        ({"reason": INFORMATION}, "unsure"),
        ({"reason": RED_FLAG, "conflicting_codes": ["fever"]}, "contradictory"),
    ],
)
def test_a_decision_stands_only_where_the_interview_does_not_go_on(fields, reason):
    conflicting = fields.pop("conflicting_codes", [])
    question = triage_pb2.NextQuestion(code="fever", **fields)
    response = answer(next_questions=[question], conflicting_codes=conflicting)
    defer([triage_pb2.EvidenceState()], [response], VOCABULARY, 0.85, put=True)
    assert message_figures(response)["deferred"] == reason
    assert bool(response.next_questions) == (reason is None), "nothing is asked of a case that is handed over"


def test_who_does_not_ask_for_it_is_not_handed_over():
    response = answer(is_novel=True, conflicting_codes=["fever"])
    defer([triage_pb2.EvidenceState()], [response], VOCABULARY, None, 0.0)
    assert not response.HasField("deferred")

"""What pages show."""

import json
import re

import pytest

from schemas.triage import WIRE_NUMBERS
from serving.console import view
from serving.console.application import Pages
from serving.console.case import NOT_KNOWN, PRESENT, Case, Statement
from serving.console.served_model import Answer
from triage_client import DeferralReason, Evidence, EvidenceStatus, NextQuestion, QuestionReason, TriageResponse

RED, YELLOW, GREEN, BLUE, ASK = WIRE_NUMBERS.values()
FEVER = Case((Statement("fever", PRESENT, False),))


def _answer(served_model, response, asks=False, question="", chosen=None):
    return Answer(served_model.version(), response, asks, question, chosen)


def _present(code):
    return Evidence(code=code, status=EvidenceStatus.EVIDENCE_STATUS_PRESENT)


def _response(**fields):
    values = [{"action": action, "value": 0.5} for action in WIRE_NUMBERS.values()]
    standard = {"action": YELLOW, "best_triage": YELLOW, "model_version": "3", "q_values": values}
    return TriageResponse(**(standard | fields))


def test_an_empty_case_shows_no_recommendation(served_model):
    page = view.case_page(Case(), None, served_model.version())
    assert (page.recommendation, page.question, page.findings) == (None, None, [])


def test_q_values_are_shown_only_where_there_are_no_probabilities(served_model, hand_set):
    recommendation = view.recommendation(served_model.answer(FEVER).response, served_model.version())
    assert recommendation.columns == ("Q-value",)
    assert [row.label for row in recommendation.rows] == ["Red", "Yellow", "Green", "Blue"]  # not ask
    assert [row.cells for row in recommendation.rows] == [(f"{value:.2f}",) for value in hand_set.fever_q[:4]]
    response = _response(probabilities=[{"decision": YELLOW, "appropriate": 0.625, "safe": 0.9}])
    recommendation = view.recommendation(response, served_model.version())
    assert recommendation.columns == ("appropriate", "safe")
    assert recommendation.rows == [view.DecisionRow("Yellow", 0.625, ("62%", "90%"))]


def test_findings_speak_for_the_decision_or_against_it(served_model):
    case = FEVER.after(Statement("chest_pain", PRESENT, True)).after(Statement("smoker", NOT_KNOWN, True))
    for code in ("rash", "cough", "nausea"):
        case = case.after(Statement(code, PRESENT, False))
    response = _response()
    response.explanation.effects.add(evidence=_present("fever"), support=0.25, best_triage_without=GREEN)
    response.explanation.effects.add(evidence=_present("chest_pain"), support=-0.125, best_triage_without=YELLOW)
    response.explanation.effects.add(evidence=_present("rash"), support=0.004, best_triage_without=YELLOW)
    response.explanation.effects.add(evidence=_present("cough"), effect=0.1, best_triage_without=YELLOW)
    response.explanation.effects.add(evidence=_present("nausea"), effect=0.1, best_triage_without=GREEN)
    page = view.case_page(case, _answer(served_model, response), served_model.version())
    assert page.findings == [
        view.Finding("fever, by name", "present", "speaks for Yellow: without it Green"),
        view.Finding("chest_pain, by name", "present", "speaks against Yellow: \N{MINUS SIGN}12 points"),
        view.Finding("smoker, by name", "not_known", ""),
        view.Finding("rash", "present", "hardly matters"),
        view.Finding("cough", "present", "unclear"),
        view.Finding("nausea", "present", "unclear: without it Green"),
    ]


def test_the_only_finding_has_no_side_as_nothing_is_known_without_it(served_model):
    response = _response()
    response.explanation.effects.add(evidence=_present("fever"), support=0.25, best_triage_without=GREEN)
    page = view.case_page(FEVER, _answer(served_model, response), served_model.version())
    assert page.findings == [view.Finding("fever, by name", "present", "")]


def test_rules_novelty_and_turning_answers_are_named(served_model):
    response = _response(novelty=0.995, is_novel=True)
    response.fired_rules.add(rule_id="pain", reason="Pain.", from_action=GREEN, to_action=YELLOW)
    response.fired_rules.add(rule_id="same", reason="Same.", from_action=YELLOW, to_action=YELLOW)
    absent = Evidence(code="smoker", status=EvidenceStatus.EVIDENCE_STATUS_ABSENT)
    response.explanation.turning.add(evidence=absent, best_triage=BLUE, likely=0.75)
    recommendation = view.recommendation(response, served_model.version())
    assert [(rule["id"], rule["change"]) for rule in recommendation.rules] == [
        ("pain", "Green → Yellow"),
        ("same", "no change"),
    ]
    assert recommendation.rule == "Pain."  # the one that changed the decision
    assert (round(recommendation.novelty, 3), recommendation.is_novel) == (0.995, True)
    assert recommendation.turning == [view.Turn("Blue", "smoker, by name", "absent", 0.75)]
    assert view.recommendation(_response(), served_model.version()).novelty is None


def test_a_page_says_why_the_model_asks_or_stops(served_model):
    def status(case, asks, **fields):
        return view.case_page(case, _answer(served_model, _response(**fields), asks), served_model.version()).status

    fired = [{"rule_id": "pain", "reason": "Pain.", "from_action": GREEN, "to_action": RED}]
    handed_over = {"deferred": DeferralReason.DEFERRAL_REASON_UNSURE}
    statuses = {
        "unsure": status(FEVER, True, action=ASK),
        "red flag": status(FEVER, True),
        "ended": status(FEVER.ending(), False, forced=True),
        "limit": status(FEVER, False, forced=True),
        "nothing left": status(FEVER, False, action=ASK),
        "sure": status(FEVER, False),
        "rule": status(FEVER, False, fired_rules=fired),
        "handed over": status(FEVER, False, **handed_over),
    }
    assert len(set(statuses.values())) == len(statuses)
    assert status(FEVER, False, action=ASK, **handed_over) == statuses["handed over"]


def test_a_question_says_why_it_is_put(served_model):
    def why(chosen):
        answer = _answer(served_model, _response(action=ASK), True, "smoker", chosen)
        return view.case_page(FEVER, answer, served_model.version()).question_why

    assert "cannot choose questions" in why(None)
    chosen = NextQuestion(code="smoker", expected_gain=0.0625, likely=0.25)
    assert "25% say yes" in why(chosen)
    chosen.reason = QuestionReason.QUESTION_REASON_RED_FLAG
    assert "red flag" in why(chosen)
    chosen.rationale = "Fast breathing with fever can mean sepsis."
    assert re.match(r"Fast breathing with fever can mean sepsis\. .*25% say yes", why(chosen))


def test_each_of_several_red_flags_has_the_reason_of_its_own_rule_beside_it(served_model):
    chosen = NextQuestion(
        code="smoker", any_of=["smoker", "chest_pain"], likely=0.25, rationale="It may be a heart attack."
    )
    chosen.reason = QuestionReason.QUESTION_REASON_RED_FLAG
    answer = _answer(served_model, _response(action=ASK), True, "smoker", chosen)
    without = view.case_page(FEVER, answer, served_model.version())  # of a server that gives none
    assert [bool(why) for _, why in without.together] == [False, False]
    chosen.rationales.extend(["", "It may be a heart attack."])
    page = view.case_page(FEVER, answer, served_model.version())
    assert [(entry.code, why) for entry, why in page.together] == [
        ("smoker", ""),
        ("chest_pain", "It may be a heart attack."),
    ]
    assert re.search("red flag.*25% .* first", page.question_why)
    shown = Pages().show("case", page=page, case=FEVER, typed="", results=[], numbers=[]).body.decode()
    assert '>chest_pain, by name <span class="small">It may be a heart attack.</span></span>' in shown
    assert ">smoker, by name</span>" in shown


@pytest.mark.parametrize(
    ("asks", "order"),
    [(True, ("question", "add", "known", "decision", "why")), (False, ("decision", "known", "question", "add", "why"))],
)
def test_a_page_is_in_the_order_in_which_it_is_read_and_the_decision_first_once_there_is_one(served_model, asks, order):
    page = view.case_page(FEVER, _answer(served_model, _response(), asks, "smoker"), served_model.version())
    shown = Pages().show("case", page=page, case=FEVER, typed="", results=[], numbers=[]).body.decode()
    places = [*(shown.index(f'id="{part}"') for part in order), shown.index("<table>")]
    assert places == sorted(places)


def test_the_case_as_json_is_the_request_and_the_answer(served_model):
    page = view.case_page(FEVER, served_model.answer(FEVER), served_model.version())
    copied = json.loads(page.json)
    assert copied["case"] == FEVER.request()
    assert copied["answer"]["best_triage"] == "Yellow"

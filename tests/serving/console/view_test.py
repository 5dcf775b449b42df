"""What pages show."""

import json

import pytest

from schemas.triage import WIRE_NUMBERS
from serving.console import view
from serving.console.agent import Answer
from serving.console.case import NOT_KNOWN, PRESENT, Case, Said
from serving.console.pages import Pages
from triage_client import DeferralReason, Evidence, EvidenceStatus, NextQuestion, QuestionReason, TriageResponse

RED, YELLOW, GREEN, BLUE, ASK = WIRE_NUMBERS.values()
FEVER = Case((Said("fever", PRESENT, False),))


def _answer(agent, response, goes_on=False, question="", chosen=None):
    return Answer(agent.model(), response, goes_on, question, chosen)


def _present(code):
    return Evidence(code=code, status=EvidenceStatus.EVIDENCE_STATUS_PRESENT)


def _response(**fields):
    values = [{"action": action, "value": 0.5} for action in WIRE_NUMBERS.values()]
    standard = {"action": YELLOW, "best_triage": YELLOW, "model_version": "3", "q_values": values}
    return TriageResponse(**(standard | fields))


def test_an_empty_case_shows_no_verdict(agent):
    page = view.case_page(Case(), None, agent.model())
    assert (page.verdict, page.question, page.findings) == (None, None, [])


def test_q_values_are_shown_only_where_there_are_no_probabilities(agent, hand_set):
    verdict = view.verdict(agent.answer(FEVER).response, agent.model())
    assert verdict.columns == ("Q-value",)
    assert [row.label for row in verdict.rows] == ["Red", "Yellow", "Green", "Blue"]  # not ask
    assert [row.cells for row in verdict.rows] == [(f"{value:.2f}",) for value in hand_set.fever_q[:4]]
    response = _response(probabilities=[{"decision": YELLOW, "appropriate": 0.625, "safe": 0.9}])
    verdict = view.verdict(response, agent.model())
    assert verdict.columns == ("appropriate", "safe")
    assert verdict.rows == [view.Row("Yellow", 0.625, ("62%", "90%"))]


def test_findings_speak_for_the_decision_or_against_it(agent):
    case = FEVER.after(Said("chest_pain", PRESENT, True)).after(Said("smoker", NOT_KNOWN, True))
    case = case.after(Said("rash", PRESENT, False))
    response = _response()
    response.explanation.effects.add(evidence=_present("fever"), support=0.25, best_triage_without=GREEN)
    response.explanation.effects.add(evidence=_present("chest_pain"), support=-0.125, best_triage_without=YELLOW)
    response.explanation.effects.add(evidence=_present("rash"), support=0.004, best_triage_without=YELLOW)
    page = view.case_page(case, _answer(agent, response), agent.model())
    assert page.findings == [
        view.Finding("fever, by name", "present", "speaks for Yellow: without it Green"),
        view.Finding("chest_pain, by name", "present", "speaks against Yellow: \N{MINUS SIGN}12 points"),
        view.Finding("smoker, by name", "not_known", ""),
        view.Finding("rash", "present", "hardly matters"),
    ]


def test_rules_novelty_and_turning_answers_are_named(agent):
    response = _response(novelty=0.995, is_novel=True)
    response.fired_rules.add(rule_id="pain", reason="Pain.", from_action=GREEN, to_action=YELLOW)
    response.fired_rules.add(rule_id="same", reason="Same.", from_action=YELLOW, to_action=YELLOW)
    absent = Evidence(code="smoker", status=EvidenceStatus.EVIDENCE_STATUS_ABSENT)
    response.explanation.turning.add(evidence=absent, best_triage=BLUE, likely=0.75)
    verdict = view.verdict(response, agent.model())
    assert [(rule["id"], rule["change"]) for rule in verdict.rules] == [
        ("pain", "Green → Yellow"),
        ("same", "no change"),
    ]
    assert verdict.rule == "Pain."  # the one that changed the decision
    assert (round(verdict.novelty, 3), verdict.is_novel) == (0.995, True)
    assert verdict.turning == [view.Turn("Blue", "smoker, by name", "absent", 0.75)]
    assert view.verdict(_response(), agent.model()).novelty is None


def test_a_page_says_why_the_model_asks_or_stops(agent):
    def status(case, goes_on, **fields):
        return view.case_page(case, _answer(agent, _response(**fields), goes_on), agent.model()).status

    assert "not sure enough yet" in status(FEVER, True, action=ASK)
    assert "may raise a red flag" in status(FEVER, True)
    assert "You ended" in status(FEVER.ending(), False, forced=True)
    assert "limit of questions" in status(FEVER, False, forced=True)
    assert "no question is left" in status(FEVER, False, action=ASK)
    assert "sure enough to stop" in status(FEVER, False)
    fired = [{"rule_id": "pain", "reason": "Pain.", "from_action": GREEN, "to_action": RED}]
    assert "A safety rule decides" in status(FEVER, False, fired_rules=fired)
    handed_over = {"deferred": DeferralReason.DEFERRAL_REASON_UNSURE}
    for fields in ({}, {"action": ASK}):
        assert status(FEVER, False, **handed_over, **fields) == "The case is handed over to a person."


def test_a_question_says_why_it_is_put(agent):
    def why(chosen):
        answer = _answer(agent, _response(action=ASK), True, "smoker", chosen)
        return view.case_page(FEVER, answer, agent.model()).question_why

    assert "cannot choose questions" in why(None)
    chosen = NextQuestion(code="smoker", expected_gain=0.0625, likely=0.25)
    assert why(chosen) == "Chosen by the model; 25% say yes."
    chosen.reason = QuestionReason.QUESTION_REASON_RED_FLAG
    assert why(chosen).startswith("May be a red flag; ")
    chosen.rationale = "Fast breathing with fever can mean sepsis."
    assert why(chosen) == "Fast breathing with fever can mean sepsis. (25% say yes)"


def test_each_of_several_red_flags_has_the_reason_of_its_own_rule_beside_it(agent):
    chosen = NextQuestion(
        code="smoker", any_of=["smoker", "chest_pain"], likely=0.25, rationale="It may be a heart attack."
    )
    chosen.reason = QuestionReason.QUESTION_REASON_RED_FLAG
    answer = _answer(agent, _response(action=ASK), True, "smoker", chosen)
    without = view.case_page(FEVER, answer, agent.model())  # of a server that gives none
    assert [bool(why) for _, why in without.together] == [False, False]
    chosen.rationales.extend(["", "It may be a heart attack."])
    page = view.case_page(FEVER, answer, agent.model())
    assert [(entry.code, why) for entry, why in page.together] == [
        ("smoker", ""),
        ("chest_pain", "It may be a heart attack."),
    ]
    assert page.question_why == "May be a red flag; 25% say yes to the first."
    shown = Pages().show("case", page=page, case=FEVER, typed="", results=[], number="").body.decode()
    assert '>chest_pain, by name</span> <span class="small">It may be a heart attack.</span></label>' in shown
    assert ">smoker, by name</span></label>" in shown


@pytest.mark.parametrize(
    ("goes_on", "order"),
    [(True, ("question", "add", "known", "decision", "why")), (False, ("decision", "known", "question", "add", "why"))],
)
def test_a_page_is_in_the_order_in_which_it_is_read_and_the_decision_first_once_there_is_one(agent, goes_on, order):
    page = view.case_page(FEVER, _answer(agent, _response(), goes_on, "smoker"), agent.model())
    shown = Pages().show("case", page=page, case=FEVER, typed="", results=[], number="").body.decode()
    places = [*(shown.index(f'id="{part}"') for part in order), shown.index("<table>")]
    assert places == sorted(places)


def test_the_case_as_json_is_the_request_and_the_answer(agent):
    page = view.case_page(FEVER, agent.answer(FEVER), agent.model())
    copied = json.loads(page.json)
    assert copied["case"] == FEVER.figures()
    assert copied["answer"]["best_triage"] == "Yellow"

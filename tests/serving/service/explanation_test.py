"""Explanations of agents whose answers are worked out by hand."""

import pytest

from schemas.evidence import Evidence, Vocabulary
from serving.errors import FaultyRequestError
from serving.messages import MOST_EXPLAINED, codes_of, speaks, state_message
from serving.service.explanation import check_explainable, explain, give_rationales
from tests.builders import symptoms
from triage.v1 import triage_pb2

RED, YELLOW, GREEN = (
    triage_pb2.TRIAGE_ACTION_RED, triage_pb2.TRIAGE_ACTION_YELLOW, triage_pb2.TRIAGE_ACTION_GREEN,
)  # fmt: skip
VOCABULARY = symptoms("pain", "ache", parents={"ache": "pain"})
PRESENT = triage_pb2.EVIDENCE_STATUS_PRESENT


def agent(judge, of=RED):
    """An agent that answers what `judge` says of the codes present and absent.

    That is the decision, the probability that the decision `of` is right, and the rules that fire.
    """

    def ask(states):
        answers = []
        for state in states:
            decision, right, *rules = judge(*codes_of(state))
            answers.append(triage_pb2.TriageResponse(best_triage=decision))
            answers[-1].probabilities.add(decision=of, appropriate=right, safe=1.0)
            for rule in rules:
                answers[-1].fired_rules.add(rule_id=rule, reason=f"It may be {rule}.")
        return answers

    return ask


def two_signs(present, absent):
    """Red where pain and sweating are present, Yellow with one of them; P(Red is right) is .1, and .4 more for each."""
    signs = sum(code in ("pain", "sweating") for code in present)
    return (GREEN, YELLOW, RED)[signs], 0.1 + 0.4 * signs


TWO_SIGNS = agent(two_signs)


def explained(present, absent=(), questions=(), vocabulary=VOCABULARY, ask=TWO_SIGNS):
    state = state_message(present, absent)
    return explain(state, ask([state])[0], questions, vocabulary, ask)


def sides(why, decision=RED):
    """What each piece speaks for or against."""
    return {each.evidence.code: speaks(each, decision) for each in why.effects}


@pytest.mark.parametrize(
    ("present", "absent", "expected"),
    [
        # Two probabilities, of which one changes by .4: .2 on average; the absent fever changes nothing.
        (["pain", "sweating"], ["fever"], [("pain", 0.2, YELLOW), ("sweating", 0.2, YELLOW), ("fever", 0.0, RED)]),
        # Pain follows from the ache, so that it comes and goes with it, although the model knows no relations.
        (["pain", "ache", "sweating"], [], [("ache", 0.2, YELLOW), ("sweating", 0.2, YELLOW)]),
    ],
)
def test_effects_are_changes_where_a_piece_is_left_out_with_what_follows_from_it(present, absent, expected):
    why = explained(present, absent)
    assert [(each.evidence.code, round(each.effect, 3), each.best_triage_without) for each in why.effects] == expected
    assert sorted(each.code for each in why.sufficient) == sorted(code for code, _, left in expected if left != RED)


def test_of_two_pieces_that_say_the_same_the_first_is_named():
    sexes = [Evidence(code, "risk_factor", code, f"{code}?", exclusive="sex") for code in ("pain", "sweating")]
    why = explained(["pain"], ["sweating"], vocabulary=Vocabulary(sexes))
    assert [(each.evidence.code, each.best_triage_without) for each in why.effects] == [("pain", GREEN)]


def test_support_says_what_speaks_for_the_decision_and_what_against_it():
    ask = agent(lambda present, absent: (RED, 0.3 + 0.4 * len(present) - 0.2 * len(absent)))
    why = explained(["pain"], ["fever"], ask=ask)
    assert {each.evidence.code: round(each.support, 3) for each in why.effects} == {"pain": 0.4, "fever": -0.2}


SIGNS = symptoms("shoulder_tip_pain", "pelvic_pain", "fainting", "fever", "rash", flags=("shoulder_tip_pain",))


@pytest.mark.parametrize(
    ("beside", "alone", "side"),
    [
        (-0.1, 0.1, "unclear"),  # lowers P(Red) in a woman who is known to have fainted, and raises it without that
        (-0.1, -0.1, "unclear"),  # a danger sign never speaks against Red, whatever the model says
        (0.1, -0.1, "unclear"),
        (0.1, 0.1, "for"),
    ],
)
def test_shoulder_tip_pain_never_speaks_against_red_in_an_ectopic_pregnancy(beside, alone, side):
    def judge(present, absent):
        """Red. P(Red is right) is .2, .6 after a faint; the sign adds `beside` to it with a faint, else `alone`."""
        right, more = (0.6, beside) if "fainting" in present else (0.2, alone)
        return RED, right + more * ("shoulder_tip_pain" in present)

    why = explained(["pelvic_pain", "fainting", "shoulder_tip_pain"], vocabulary=SIGNS, ask=agent(judge))
    assert sides(why)["shoulder_tip_pain"] == side
    assert sides(why)["fainting"] == "for"
    [support] = [each.support for each in why.effects if each.evidence.code == "shoulder_tip_pain"]
    assert support == pytest.approx(beside if side == "for" else 0.0)


@pytest.mark.parametrize(("decision", "side"), [(RED, "unclear"), (YELLOW, "for")])
def test_no_rash_never_speaks_for_red_in_a_baby(decision, side):
    ask = agent(lambda present, absent: (decision, 0.5 if absent else 0.4), of=decision)
    assert sides(explained(["fever"], ["rash"], vocabulary=SIGNS, ask=ask), decision)["rash"] == side


def test_a_piece_that_the_rule_for_the_decision_needs_speaks_for_it():
    """Although the model itself takes the fever for a reason against Red."""
    ask = agent(lambda present, absent: (RED, 0.1, "hot") if "fever" in present else (GREEN, 0.3))
    assert sides(explained(["rash", "fever"], vocabulary=SIGNS, ask=ask)) == {"fever": "for", "rash": ""}


@pytest.mark.parametrize(("any_of", "own"), [((), []), (("rash", "fast_breathing"), ["", "It may be sepsis."])])
def test_a_question_has_the_reason_of_the_rule_that_a_yes_would_fire(any_of, own):
    """Of several codes, that of the first that would fire one, and each its own."""
    ask = agent(lambda present, absent: (RED, 0.5, "hot", *(["sepsis"] if "fast_breathing" in present else [])))
    state = state_message(["fever"])
    response = ask([state])[0]
    response.next_questions.add(code="rash" if any_of else "fast_breathing", any_of=any_of)
    response.next_questions.add(code="cough")
    give_rationales(state, response, ask)
    assert [question.rationale for question in response.next_questions] == ["It may be sepsis.", ""]
    assert [list(question.rationales) for question in response.next_questions] == [own, []]


def test_what_is_sufficient_gives_the_decision_and_cannot_be_less():
    why = explained(["rash", "pain", "sweating"], ["fever", "cough"])
    assert sorted(each.code for each in why.sufficient) == ["pain", "sweating"]
    assert [each.code for each in explained(["rash"]).sufficient] == ["rash"]


def test_the_smallest_set_is_found_where_leaving_out_the_weakest_piece_first_leads_to_a_larger_one():
    weights = {"pain": 0.3, "sweating": 0.3, "pallor": 0.3, "collapse": 0.1}

    def judge(present, absent):
        """Red for collapse, or for the three other signs together; each adds its weight to P(Red is right)."""
        red = "collapse" in present or {"pain", "sweating", "pallor"} <= set(present)
        return RED if red else GREEN, sum(weights[code] for code in present)

    # Collapse, the weakest, would be left out first; the other three give Red too, and none of them can be left out.
    assert [each.code for each in explained(list(weights), ask=agent(judge)).sufficient] == ["collapse"]


def test_too_many_sets_are_not_tried():
    asked = []

    def all_needed(present, absent):
        asked.append(present)
        return RED if len(present) == 40 else GREEN, 0.5

    why = explained([f"e{number}" for number in range(40)], ask=agent(all_needed))
    assert len(why.sufficient) == 40
    # The state; without each piece, the first alone and with each other, and each alone; the 780 pairs are too many.
    assert len(asked) == 1 + 40 + 40 + 40


def test_answers_that_would_turn_the_decision_are_named_the_likely_ones_first():
    questions = [
        triage_pb2.NextQuestion(code="fever", likely=0.9),
        triage_pb2.NextQuestion(code="sweating", likely=0.2),
    ]
    [turning] = explained(["pain"], questions=questions).turning  # neither fever nor any denial changes anything
    assert (turning.evidence.code, turning.evidence.status, turning.best_triage) == ("sweating", PRESENT, RED)
    assert turning.likely == pytest.approx(0.2)


@pytest.mark.parametrize(("decision", "named"), [(RED, ["fever", "cough"]), (GREEN, ["cough"])])
def test_no_danger_sign_is_named_that_would_make_the_decision_less_urgent(decision, named):
    fever = Evidence("fever", "symptom", "Fever", "Do you have fever?", red_flag="yes")
    vocabulary = Vocabulary([*VOCABULARY, fever, Evidence("cough", "symptom", "Cough", "Do you have a cough?")])
    turned = {"fever": decision, "cough": GREEN}
    judged = agent(lambda present, absent: (turned.get("".join(present[-1:]), YELLOW), 0.5))
    questions = [triage_pb2.NextQuestion(code=code, likely=0.8) for code in ("fever", "cough")]
    why = explained(["pain"], questions=questions, vocabulary=vocabulary, ask=judged)
    assert [each.evidence.code for each in why.turning] == named


def test_other_fields_of_the_state_stay():
    asked = []

    def recording(states):
        asked.extend(states)
        return TWO_SIGNS(states)

    state = state_message(["pain", "rash"], questions_asked=5, max_questions=7)
    explain(state, TWO_SIGNS([state])[0], (), VOCABULARY, recording)
    assert {(each.questions_asked, each.max_questions) for each in asked} == {(5, 7)}


def test_more_evidence_than_can_be_explained_is_refused():
    codes = [f"e{number}" for number in range(MOST_EXPLAINED + 1)]
    check_explainable(state_message(codes[:-1]))
    with pytest.raises(FaultyRequestError, match="explain: 65 pieces of evidence"):
        check_explainable(state_message(codes))

import pytest

from schemas.evidence import Evidence, Vocabulary
from serving.errors import FaultyRequestError
from serving.messages import MOST_EXPLAINED, speaks, state_message
from serving.service.explanation import check_explainable, explain, give_rationales
from triage.v1 import triage_pb2

RED, YELLOW, GREEN = (
    triage_pb2.TRIAGE_ACTION_RED, triage_pb2.TRIAGE_ACTION_YELLOW, triage_pb2.TRIAGE_ACTION_GREEN,
)  # fmt: skip
VOCABULARY = Vocabulary([Evidence("pain", "symptom", "P", "P?"), Evidence("ache", "symptom", "A", "A?", parent="pain")])
PRESENT, ABSENT = triage_pb2.EVIDENCE_STATUS_PRESENT, triage_pb2.EVIDENCE_STATUS_ABSENT


def ask(states):
    """Red where pain and sweating are present, Yellow with one of them; P(Red is right) is .1, and .4 more for each."""
    answers = []
    for state in states:
        signs = sum(e.code in ("pain", "sweating") and e.status == PRESENT for e in state.evidence)
        answer = triage_pb2.TriageResponse(best_triage=(GREEN, YELLOW, RED)[signs])
        answer.probabilities.add(decision=RED, appropriate=0.1 + 0.4 * signs, safe=1.0)
        answers.append(answer)
    return answers


def _explained(present, absent=(), questions=()):
    state = state_message(present, absent)
    return explain(state, ask([state])[0], questions, VOCABULARY, ask)


def test_effects_are_changes_where_a_piece_is_left_out():
    why = _explained(["pain", "sweating"], ["fever"])
    # Two probabilities, of which one changes by .4: .2 on average; the absent fever changes nothing.
    effects = [(each.evidence.code, round(each.effect, 3), each.best_triage_without) for each in why.effects]
    assert effects == [("pain", 0.2, YELLOW), ("sweating", 0.2, YELLOW), ("fever", 0.0, RED)]


def test_what_follows_from_another_piece_comes_and_goes_with_it():
    """Of a model that knows no relations, too: it is asked with the pain wherever there is the ache."""
    why = _explained(["pain", "ache", "sweating"])
    effects = [(each.evidence.code, round(each.effect, 3), each.best_triage_without) for each in why.effects]
    assert effects == [("ache", 0.2, YELLOW), ("sweating", 0.2, YELLOW)]
    assert sorted(each.code for each in why.sufficient) == ["ache", "sweating"]


def test_of_two_pieces_that_say_the_same_the_first_is_named():
    sexes = [Evidence(code, "risk_factor", code, f"{code}?", exclusive="sex") for code in ("pain", "sweating")]
    state = state_message(["pain"], ["sweating"])
    why = explain(state, ask([state])[0], (), Vocabulary(sexes), ask)
    assert [(each.evidence.code, each.best_triage_without) for each in why.effects] == [("pain", GREEN)]


def test_support_says_what_speaks_for_the_decision_and_what_against_it():
    def ask(states):
        """Always Red, which each sign makes .4 more likely to be right and each denied fever .2 less."""
        answers = [triage_pb2.TriageResponse(best_triage=RED) for _ in states]
        for state, answer in zip(states, answers, strict=True):
            right = 0.3 + sum(0.4 if each.status == PRESENT else -0.2 for each in state.evidence)
            answer.probabilities.add(decision=RED, appropriate=right, safe=1.0)
        return answers

    state = state_message(["pain"], ["fever"])
    why = explain(state, ask([state])[0], (), VOCABULARY, ask)
    assert {each.evidence.code: round(each.support, 3) for each in why.effects} == {"pain": 0.4, "fever": -0.2}


SIGNS = Vocabulary(
    Evidence(code, "symptom", "S", "S?", red_flag="yes" if code == "shoulder_tip_pain" else "")
    for code in ("shoulder_tip_pain", "pelvic_pain", "fainting", "fever", "rash")
)


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
    def ask(states):
        """Red. P(Red is right) is .2, .6 after a faint; the sign adds `beside` to it with a faint, else `alone`."""
        answers = []
        for state in states:
            codes = {each.code for each in state.evidence}
            right = 0.6 if "fainting" in codes else 0.2
            right += ("shoulder_tip_pain" in codes) * (beside if "fainting" in codes else alone)
            answers.append(triage_pb2.TriageResponse(best_triage=RED))
            answers[-1].probabilities.add(decision=RED, appropriate=right, safe=1.0)
        return answers

    state = state_message(["pelvic_pain", "fainting", "shoulder_tip_pain"])
    effects = {each.evidence.code: each for each in explain(state, ask([state])[0], (), SIGNS, ask).effects}
    sign = effects["shoulder_tip_pain"]
    assert speaks(sign, RED) == side
    assert sign.support == pytest.approx(beside if side == "for" else 0.0)
    assert speaks(effects["fainting"], RED) == "for"


@pytest.mark.parametrize(("decision", "side"), [(RED, "unclear"), (YELLOW, "for")])
def test_no_rash_never_speaks_for_red_in_a_baby(decision, side):
    def ask(states):
        """P(the decision is right) is .5 with the denial, .4 without."""
        answers = [triage_pb2.TriageResponse(best_triage=decision) for _ in states]
        for state, answer in zip(states, answers, strict=True):
            denied = any(each.status == ABSENT for each in state.evidence)
            answer.probabilities.add(decision=decision, appropriate=0.5 if denied else 0.4, safe=1.0)
        return answers

    state = state_message(["fever"], ["rash"])
    effects = {each.evidence.code: each for each in explain(state, ask([state])[0], (), SIGNS, ask).effects}
    assert speaks(effects["rash"], decision) == side


def test_a_piece_that_the_rule_for_the_decision_needs_speaks_for_it():
    def ask(states):
        """Red by a rule with the fever, else Green; the model itself takes the fever for a reason against Red."""
        answers = []
        for state in states:
            hot = any(each.code == "fever" for each in state.evidence)
            answer = triage_pb2.TriageResponse(best_triage=RED if hot else GREEN)
            answer.probabilities.add(decision=RED, appropriate=0.1 if hot else 0.3, safe=1.0)
            if hot:
                answer.fired_rules.add(rule_id="hot")
            answers.append(answer)
        return answers

    state = state_message(["rash", "fever"])
    effects = {each.evidence.code: each for each in explain(state, ask([state])[0], (), SIGNS, ask).effects}
    assert [speaks(effects[code], RED) for code in ("fever", "rash")] == ["for", ""]


def test_a_question_has_the_reason_of_the_rule_that_a_yes_would_fire():
    def ask(states):
        answers = [triage_pb2.TriageResponse() for _ in states]
        for state, answer in zip(states, answers, strict=True):
            codes = {each.code for each in state.evidence}
            for needed, rule in (({"fever"}, "hot"), ({"fever", "fast_breathing"}, "sepsis")):
                if needed <= codes:
                    answer.fired_rules.add(rule_id=rule, reason=f"It may be {rule}.")
        return answers

    state = state_message(["fever"])
    response = ask([state])[0]
    for any_of in ((), ("rash", "fast_breathing")):  # of several codes, the first with a rule, and each its own
        del response.next_questions[:]
        response.next_questions.add(code="rash" if any_of else "fast_breathing", any_of=any_of)
        response.next_questions.add(code="cough")
        give_rationales(state, response, ask)
        assert [question.rationale for question in response.next_questions] == ["It may be sepsis.", ""]
        own = ["", "It may be sepsis."] if any_of else []
        assert [list(question.rationales) for question in response.next_questions] == [own, []]


def test_what_is_sufficient_gives_the_decision_and_cannot_be_less():
    why = _explained(["rash", "pain", "sweating"], ["fever", "cough"])
    assert sorted(each.code for each in why.sufficient) == ["pain", "sweating"]
    assert [each.code for each in _explained(["rash"]).sufficient] == ["rash"]


def test_the_smallest_set_is_found_where_leaving_out_the_weakest_piece_first_leads_to_a_larger_one():
    weights = {"pain": 0.3, "sweating": 0.3, "pallor": 0.3, "collapse": 0.1}

    def ask(states):
        """Red for collapse, or for the three other signs together; each adds its weight to P(Red is right)."""
        answers = []
        for state in states:
            codes = {each.code for each in state.evidence}
            red = "collapse" in codes or codes >= {"pain", "sweating", "pallor"}
            answer = triage_pb2.TriageResponse(best_triage=RED if red else GREEN)
            answer.probabilities.add(decision=RED, appropriate=sum(weights[code] for code in codes), safe=1.0)
            answers.append(answer)
        return answers

    state = state_message(list(weights))
    # Collapse, the weakest, would be left out first; the other three give Red too, and none of them can be left out.
    assert [each.code for each in explain(state, ask([state])[0], (), VOCABULARY, ask).sufficient] == ["collapse"]


def test_too_many_sets_are_not_tried():
    asked = []

    def all_needed(states):
        asked.extend(states)
        answers = [triage_pb2.TriageResponse(best_triage=RED if len(s.evidence) == 40 else GREEN) for s in states]
        for answer in answers:
            answer.probabilities.add(decision=RED, appropriate=0.5, safe=1.0)
        return answers

    state = state_message([f"e{number}" for number in range(40)])
    why = explain(state, all_needed([state])[0], (), VOCABULARY, all_needed)
    assert len(why.sufficient) == 40
    # All, without each piece, the first alone and with each other, and each alone; the 780 pairs are too many.
    assert len(asked) == 1 + 40 + 40 + 40


def test_answers_that_would_turn_the_decision_are_named_the_likely_ones_first():
    questions = [
        triage_pb2.NextQuestion(code="fever", likely=0.9),
        triage_pb2.NextQuestion(code="sweating", likely=0.2),
    ]
    why = _explained(["pain"], questions=questions)
    turning = [(each.evidence.code, each.evidence.status, each.best_triage) for each in why.turning]
    assert turning == [("sweating", PRESENT, RED)]  # neither fever nor its absence, nor no sweating, changes anything
    assert why.turning[0].likely == pytest.approx(0.2)


def test_other_fields_of_the_state_stay():
    asked = []

    def recording(states):
        asked.extend(states)
        return ask(states)

    state = state_message(["pain", "rash"], questions_asked=5, max_questions=7)
    explain(state, ask([state])[0], (), VOCABULARY, recording)
    assert {(each.questions_asked, each.max_questions) for each in asked} == {(5, 7)}


def test_more_evidence_than_can_be_explained_is_refused():
    codes = [f"e{number}" for number in range(MOST_EXPLAINED + 1)]
    check_explainable(state_message(codes[:-1]))
    with pytest.raises(FaultyRequestError, match="explain: 65 pieces of evidence"):
        check_explainable(state_message(codes))

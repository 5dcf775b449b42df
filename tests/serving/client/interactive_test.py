"""The interview of `triage ask --interactive`, with somebody who types."""

import dataclasses
import re

import pytest

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from serving.client.interactive import InterviewOptions, KnownEvidence, ask_complaint, converse
from triage_client import DeferralReason, EvidenceStatus, NextStep, QuestionReason, TriageAction, TriageResponse

VOCABULARY = Vocabulary(
    [
        Evidence("fever", "symptom", "F", "F?", band="temperature >=38 <45 °C"),
        Evidence("cold", "symptom", "C", "C?", band="temperature >=20 <35 °C"),
        Evidence("chest_pain", "symptom", "P", "P?"),
        Evidence("child", "risk_factor", "Under 18", "Child?", exclusive="age"),
        Evidence("adult", "risk_factor", "18 [or over]", "Adult?", exclusive="age"),
        Evidence("female", "risk_factor", "Woman", "F?", exclusive="sex"),
        Evidence("male", "risk_factor", "Man", "M?", exclusive="sex"),
    ]
)


AGES = Vocabulary(
    dataclasses.replace(entry, band={"child": "age >=0 <18 years", "adult": "age >=18 <130 years"}.get(entry.code, ""))
    for entry in VOCABULARY
)


class Script:
    """Answers as somebody at the terminal does, and keeps what was asked."""

    def __init__(self, *lines):
        self._lines = list(lines)

    def __call__(self):
        return f"{self._lines.pop(0)}\n" if self._lines else ""


def with_next_step(response):
    """Returns a response that says what comes next, by its questions."""
    red_flag = any(each.reason == QuestionReason.QUESTION_REASON_RED_FLAG for each in response.next_questions)
    asks = any(each.worth_asking for each in response.next_questions)
    asks |= red_flag and response.best_triage != TriageAction.TRIAGE_ACTION_RED
    response.next = NextStep.NEXT_STEP_ASK if asks else NextStep.NEXT_STEP_DECIDE
    return response


class Questioner:
    """A server that asks about each of some codes in turn and then says Red."""

    def __init__(self, *codes, worthless=()):
        self._codes, self._worthless, self.states, self.not_to_ask = list(codes), worthless, [], []

    def triage(self, state, *, allow_unknown_codes, questions, not_to_ask, model, defer_below, can_measure):
        self.states.append(({e.code: e.status for e in state.evidence}, state.questions_asked, state.no_more_evidence))
        self.not_to_ask = list(not_to_ask)
        response = TriageResponse(action=TriageAction.TRIAGE_ACTION_RED, best_triage=TriageAction.TRIAGE_ACTION_RED)
        known = {*self.states[-1][0], *not_to_ask}
        open_codes = [code for code in self._codes if code not in known]
        if open_codes and not state.no_more_evidence:
            response.action = TriageAction.TRIAGE_ACTION_ASK
            response.next_questions.add(
                code=open_codes[0],
                question=f"{open_codes[0]}?",
                reason=QuestionReason.QUESTION_REASON_INFORMATION,
                worth_asking=open_codes[0] not in self._worthless,
            )
        response.forced = state.no_more_evidence
        return with_next_step(response)


def test_an_interview_takes_numbered_answers_and_ends_with_a_decision(capsys):
    server, known = Questioner("fever", "smoker", "rash"), KnownEvidence(["chest_pain"], [])
    response = converse(server, known, InterviewOptions(), VOCABULARY, Script("1", "maybe", "2", "3"))
    assert response.action == TriageAction.TRIAGE_ACTION_RED
    assert (known.present, known.absent, known.not_known) == (["chest_pain", "fever"], ["smoker"], ["rash"])
    assert server.not_to_ask == ["rash"]
    assert [questions for _, questions, _ in server.states] == [0, 1, 2, 3]
    output = capsys.readouterr().out
    assert "1. fever?" in output
    assert "3. rash?" in output
    assert output.count("2. smoker?") == 1  # what is no answer is asked again, as the same question


def test_an_interview_ends_with_a_decision_where_no_question_is_worth_asking(capsys):
    server, known = Questioner("fever", "smoker", worthless=("smoker",)), KnownEvidence(["chest_pain"], [])
    response = converse(server, known, InterviewOptions(), VOCABULARY, Script("2"))
    assert (response.action, known.absent) == (TriageAction.TRIAGE_ACTION_RED, ["fever"])
    assert "worth asking" in capsys.readouterr().out


class HandingOver:
    """A server that hands the case over, as contradictory, while it asks."""

    def __init__(self):
        self.calls = 0

    def triage(self, state, **_):
        self.calls += 1
        return TriageResponse(
            action=TriageAction.TRIAGE_ACTION_ASK,
            deferred=DeferralReason.DEFERRAL_REASON_CONTRADICTORY,
            next=NextStep.NEXT_STEP_HAND_OVER,
        )


def test_an_interview_ends_as_it_is_where_the_case_is_handed_over():
    server = HandingOver()
    response = converse(server, KnownEvidence(["fever"], []), InterviewOptions(defer_below=0.0), VOCABULARY, Script())
    assert (response.action, server.calls) == (TriageAction.TRIAGE_ACTION_ASK, 1)


class Flagged:
    """A server that is sure of Yellow from the start, and of Red where a red flag is present: fever, or a rash."""

    def triage(self, state, *, allow_unknown_codes, questions, not_to_ask, model, defer_below, can_measure):
        present = {each.code for each in state.evidence if each.status == EvidenceStatus.EVIDENCE_STATUS_PRESENT}
        red = bool(present & {"fever", "rash"})
        action = TriageAction.TRIAGE_ACTION_RED if red else TriageAction.TRIAGE_ACTION_YELLOW
        response = TriageResponse(action=action, best_triage=action, forced=state.no_more_evidence)
        known = {each.code for each in state.evidence}
        for code in ("fever", "rash", "cough"):
            flag = code != "cough"
            reason = QuestionReason.QUESTION_REASON_RED_FLAG if flag else QuestionReason.QUESTION_REASON_INFORMATION
            if code not in known | set(not_to_ask) and not response.next_questions:
                response.next_questions.add(code=code, question=f"{code}?", reason=reason)
        return with_next_step(response)


@pytest.mark.parametrize(
    ("lines", "asked", "action"),
    [
        ("22", 2, TriageAction.TRIAGE_ACTION_YELLOW),  # without a red flag the model's decision stands
        ("1", 1, TriageAction.TRIAGE_ACTION_RED),  # nothing is more urgent
        ("31", 2, TriageAction.TRIAGE_ACTION_RED),
        ("4", 0, TriageAction.TRIAGE_ACTION_YELLOW),  # nobody answers
    ],
)
def test_an_interview_goes_on_while_a_red_flag_is_open(lines, asked, action):
    known = KnownEvidence(["pain"], [])
    response = converse(Flagged(), known, InterviewOptions(), VOCABULARY, Script(*lines))
    assert (known.questions_asked, response.action) == (asked, action)


class Opening:
    """A server that asks for age and sex, to choose from, and then says Red."""

    def triage(self, state, **asked):
        known = {each.code for each in state.evidence} | {*asked["not_to_ask"]}
        red = TriageAction.TRIAGE_ACTION_RED
        response = TriageResponse(action=red, best_triage=red, forced=state.no_more_evidence)
        for group in (("child", "adult"), ("female", "male")):
            if not known & {*group} and not state.no_more_evidence:
                response.action = TriageAction.TRIAGE_ACTION_ASK
                response.next_questions.add(code=group[0], question="Which?", one_of=group, worth_asking=True)
        return with_next_step(response)


@pytest.mark.parametrize(
    ("lines", "present", "not_known", "asked"),
    [
        ("21", ["adult", "female"], [], 1),
        (["under 18", "MAN"], ["child", "male"], [], 1),
        (["18 or over", "dont know"], ["adult"], ["female"], 1),
        (["No more questions"], [], [], 0),
        ("32", ["male"], ["child"], 1),  # the third choice is that nobody knows
        ("4", [], [], 0),  # the fourth ends the questions
    ],
)
def test_age_and_sex_are_chosen_by_name_in_one_question(capsys, lines, present, not_known, asked):
    known = KnownEvidence(["pain"], [])
    converse(Opening(), known, InterviewOptions(), VOCABULARY, Script(*lines))
    assert (known.present[1:], known.not_known, known.questions_asked) == (present, not_known, asked)
    shown = capsys.readouterr().out.splitlines()
    unknown = "don\N{RIGHT SINGLE QUOTATION MARK}t know"
    assert shown[3].startswith(f"   1 Under 18   2 18 [or over]   3 {unknown}   4 no more questions")
    assert [line for line in shown if line.endswith("Which?")] == ["1. Which?", "   Which?"][: 1 + asked]


class Grouping:
    """A server that asks about two red flags in one question, which may be red flags of a rule, and then says Red."""

    def triage(self, state, **asked):
        known = {each.code for each in state.evidence} | {*asked["not_to_ask"]}
        red = TriageAction.TRIAGE_ACTION_RED
        response = TriageResponse(action=red, best_triage=red, forced=state.no_more_evidence)
        if not known & {"fever", "cold"} and not state.no_more_evidence:
            response.action = TriageAction.TRIAGE_ACTION_ASK
            response.next_questions.add(code="fever", any_of=["fever", "cold"], question="F?", worth_asking=True)
            response.next_questions.add(code="chest_pain", question="P?", worth_asking=True)
        return with_next_step(response)


@pytest.mark.parametrize(
    ("lines", "present", "absent", "not_known"),
    [
        (["2", "2"], ["cold"], ["fever"], []),  # the other is asked about again, and then denied
        (["2", "1"], ["cold", "fever"], [], []),
        (["2 3"], ["cold"], ["fever"], []),
        (["2 4"], ["cold"], [], ["fever"]),
        (["1? 3"], [], ["cold"], ["fever"]),
        (["c, F?"], ["cold"], [], ["fever"]),
        (["C", "None of these"], ["cold"], ["fever"], []),
        (["1?, 2?"], [], [], ["fever", "cold"]),
        (["1, 2"], ["fever", "cold"], [], []),
        (["2 1"], ["fever", "cold"], [], []),
        (["3"], [], ["fever", "cold"], []),
        (["4"], [], [], ["fever", "cold"]),
        (["2", "4"], ["cold"], [], []),  # no more questions
        (["5"], [], [], []),
    ],
)
def test_several_red_flags_are_answered_by_numbers(capsys, lines, present, absent, not_known):
    known = KnownEvidence(["pain"], [])
    converse(Grouping(), known, InterviewOptions(), VOCABULARY, Script(*lines))
    assert ({*known.present[1:]}, known.absent, known.not_known) == ({*present}, absent, not_known)
    assert known.questions_asked == (lines != ["5"])
    shown = capsys.readouterr().out.splitlines()
    assert shown[1] == "1. F?"
    unknown = "don\N{RIGHT SINGLE QUOTATION MARK}t know"
    assert shown[3].startswith(f"   1 F   2 C   3 none of these   4 {unknown}   5 no more questions   (one or more")


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("", "nothing .*1 to 5"),
        ("0", "'0': .*1 to 5"),
        ("maybe", "'maybe': .*1 to 5"),
        ("=38", "'=38': .*1 to 5"),
        ("no fever", "'no fever': .*1 to 5"),
        ("3?", r"'3\?': .*1 to 2"),  # the signs alone may be in doubt
        ("3 4", "'3 4': .*3 to 5"),
    ],
)
def test_what_is_no_answer_says_why_and_is_asked_again(capsys, typed, reason):
    known = KnownEvidence(["pain"], [])
    converse(Grouping(), known, InterviewOptions(), VOCABULARY, Script(typed, "3"))
    assert re.search(f"^   {reason}\\b", capsys.readouterr().out, re.MULTILINE)
    assert (known.absent, known.questions_asked) == (["fever", "cold"], 1)


@pytest.mark.parametrize(
    ("typed", "band"),
    [
        *((age, "adult") for age in ("67 years", "=67", "67 year old", "67,5")),
        ("18 months", "child"),
        ("67\n18 months", "child"),  # a number alone is that of a choice
    ],
)
def test_an_age_is_taken_with_its_unit(capsys, typed, band):
    known = KnownEvidence(["pain"], [])
    converse(Opening(), known, InterviewOptions(), AGES, Script(*typed.split("\n"), "1"))
    assert (known.present[1:], known.absent, known.questions_asked) == ([band, "female"], [], 1)
    assert bool(re.search("'67': .*=age in years", capsys.readouterr().out)) == typed.startswith("67\n")


def test_an_interview_ends_when_nobody_answers_any_more():
    server, known = Questioner("fever", "smoker"), KnownEvidence(["chest_pain"], [])
    response = converse(server, known, InterviewOptions(), VOCABULARY, Script("2", "4"))
    assert response.forced
    assert server.states[-1][2]
    assert known.questions_asked == 1
    with pytest.raises(InputError, match="input ended"):
        converse(server, KnownEvidence(["chest_pain"], []), InterviewOptions(), VOCABULARY, Script("2"))


def test_the_complaint_is_asked_for_until_it_is_known(capsys):
    known = KnownEvidence([], [])
    ask_complaint(known, VOCABULARY, Script("gout", "", "fever chest_pain"))
    assert known.present == ["fever", "chest_pain"]
    assert "No match" in capsys.readouterr().out
    with pytest.raises(InputError, match="nothing is known"):
        ask_complaint(KnownEvidence([], []), VOCABULARY, Script())


def test_a_complaint_in_words_is_one_or_more_of_the_first_matches(capsys):
    known = KnownEvidence([], [])
    ask_complaint(known, VOCABULARY, Script("my chest hurts", "a young woman", "1,4", "fever or adult", "2, f"))
    output = capsys.readouterr().out
    assert "1 P (chest_pain)   (one or more" in output
    assert "1 Woman (female)   (one or more" in output
    assert sorted(known.present) == ["adult", "fever"]


def test_a_question_takes_a_number_where_it_has_bands(capsys):
    server, known = Questioner("fever", "smoker"), KnownEvidence(["chest_pain"], [])
    converse(server, known, InterviewOptions(), VOCABULARY, Script("=warm", "=101", "101F", "2"))
    assert (known.present, known.absent) == (["chest_pain", "fever"], ["cold", "smoker"])
    assert [questions for _, questions, _ in server.states] == [0, 1, 2]
    output = capsys.readouterr().out
    assert "=temperature in °C" in output
    assert re.search("'temperature=101': .*101F", output)


def test_a_number_that_contradicts_an_answer_is_asked_again(capsys):
    known = KnownEvidence(["chest_pain"], ["fever"])
    converse(Questioner("cold"), known, InterviewOptions(), VOCABULARY, Script("=39", "=34"))
    assert (known.present, known.absent) == (["chest_pain", "cold"], ["fever"])
    assert "'temperature=39' contradicts" in capsys.readouterr().out


def test_a_complaint_may_have_numbers(capsys):
    known = KnownEvidence([], [])
    ask_complaint(known, VOCABULARY, Script("temperature=50", "temperature=36 chest_pain"))
    assert (known.present, known.absent) == (["chest_pain"], ["fever", "cold"])
    assert "'temperature=50': " in capsys.readouterr().out
    known = KnownEvidence([], [])
    ask_complaint(known, AGES, Script("67 year old, chest pain", "1 2"))
    assert known.present == ["chest_pain", "adult"]

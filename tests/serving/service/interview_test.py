"""The state of an interview after each message."""

import tracemalloc

import pytest

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from serving.service.interview import InterviewState
from serving.service.validation import RequestLimits
from tests.builders import symptoms
from triage.v1 import triage_pb2, triage_service_pb2

VOCABULARY = symptoms("chest_pain", "fever")
OPENING = Vocabulary(
    [
        *symptoms("chest_pain", "fever", "smoker"),
        *(
            Evidence(code, "risk_factor", code, f"{code}?", exclusive=group, band=band)
            for code, group, band in (
                ("child", "age", "age >=0 <18"),
                ("adult", "age", "age >=18 <130"),
                ("female", "sex", ""),
                ("male", "sex", ""),
            )
        ),
    ]
)
ASK = triage_pb2.TriageResponse(action=triage_pb2.TRIAGE_ACTION_ASK)
RED = triage_pb2.TriageResponse(action=triage_pb2.TRIAGE_ACTION_RED)
FORCED = triage_pb2.TriageResponse(action=triage_pb2.TRIAGE_ACTION_RED, forced=True)


def message(**fields):
    return triage_service_pb2.InterviewRequest(**fields)


def evidence(code, status=triage_pb2.EVIDENCE_STATUS_PRESENT):
    return message(evidence=triage_pb2.Evidence(code=code, status=status))


NOT_KNOWN = message(not_known=True)
LENIENT = triage_service_pb2.InterviewSettings(allow_unknown_codes=True, max_questions=5)


@pytest.fixture
def interview():
    return InterviewState(RequestLimits(VOCABULARY, max_batch=1, max_evidence=4))


def test_only_what_follows_ask_counts_as_a_question():
    talk = [
        (evidence("fever"), ASK),
        (evidence("chest_pain"), RED),  # answers a question
        (evidence("chest_pain"), ASK),  # said without a question
        (NOT_KNOWN, ASK),  # answers one
        (message(no_more_evidence=True), FORCED),  # answers none
    ]
    assert counts_in(talk)[1] == [0, 1, 1, 2, 2]


def asks(*one_of):
    question = triage_pb2.NextQuestion(code=one_of[0], one_of=one_of)
    return triage_pb2.TriageResponse(action=triage_pb2.TRIAGE_ACTION_ASK, next_questions=[question])


def counts_in(talk):
    """The interview after a talk, and the number of questions after each of its messages."""
    interview = InterviewState(RequestLimits(OPENING, max_batch=1, max_evidence=9))
    counts = []
    for request, response in talk:
        interview.add(request)
        counts.append(interview.respond(response).questions_asked)
    return interview, counts


ASK_AGE, ASK_SEX = asks("child", "adult"), asks("female", "male")


def test_age_and_sex_are_one_question_also_in_two_messages():
    talk = [
        (evidence("fever"), ASK_AGE),
        (evidence("chest_pain"), ASK_AGE),  # answers a question of the caller's own
        (evidence("adult"), ASK_SEX),
        (NOT_KNOWN, ASK),
        (evidence("smoker"), ASK),
    ]
    interview, counts = counts_in(talk)
    assert counts == [0, 1, 2, 2, 3]
    assert interview.not_to_ask == ("female",)


def together(first, second, status=triage_pb2.EVIDENCE_STATUS_PRESENT):
    said = evidence(first)
    said.also.add(code=second, status=status)
    return said


@pytest.mark.parametrize(
    "talk",
    [
        [(evidence("adult"), ASK_SEX), (evidence("male"), ASK)],
        [(evidence("age=34"), ASK_SEX), (evidence("male"), ASK)],
        [(evidence("male"), ASK_AGE), (evidence("adult"), ASK)],
        [(evidence("male"), ASK_AGE), (evidence("age=34"), ASK)],
        [(evidence("male"), ASK_AGE), (NOT_KNOWN, ASK)],
        [(together("smoker", "adult"), ASK_SEX), (evidence("male"), ASK)],
        [(evidence("adult"), ASK_SEX), (together("smoker", "male"), ASK)],
    ],
)
def test_age_and_sex_are_one_question_in_whatever_form_and_order_they_are_told(talk):
    assert counts_in([(evidence("fever"), ASK_AGE), *talk])[1] == [0, 1, 1]


def test_several_red_flags_are_one_question_and_not_known_is_about_all():
    group = triage_pb2.NextQuestion(code="fever", any_of=["fever", "smoker", "child"])
    asks = triage_pb2.TriageResponse(action=triage_pb2.TRIAGE_ACTION_ASK, next_questions=[group])
    said = together("fever", "smoker", triage_pb2.EVIDENCE_STATUS_ABSENT)  # nothing is said of the child
    doubtful = evidence("fever")
    doubtful.not_to_ask.append("child")
    answers = ((said, (), 3), (NOT_KNOWN, ("fever", "smoker", "child"), 1), (doubtful, ("child",), 2))
    for answer, not_to_ask, known in answers:
        interview = InterviewState(RequestLimits(OPENING, max_batch=1, max_evidence=9))
        interview.add(evidence("chest_pain"))
        interview.respond(asks)
        assert len(interview.add(answer).evidence) == known
        assert interview.respond(ASK).questions_asked == 1
        assert interview.not_to_ask == not_to_ask


def test_what_is_said_together_answers_one_question(interview):
    interview.add(evidence("fever"))
    interview.respond(ASK)
    both = together("chest_pain", "fever")
    state = interview.add(both)
    assert [piece.code for piece in state.evidence] == ["fever", "chest_pain", "fever"]
    assert state.questions_asked == 1
    alone = message(not_known=True, also=both.also)
    with pytest.raises(InputError, match=r"^also: "):
        interview.add(alone)


def test_two_million_pieces_in_one_message_are_refused_by_their_number_alone(interview):
    request = evidence("fever")
    request.MergeFromString(b"\x2a\x00" * 2_000_000)  # `also`, as an empty message
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"^also: 2000000 codes: .* 4"):
            interview.add(request)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 1_000_000  # a list of them alone takes 16 MB, and a minute


def test_the_settings_come_first(interview):
    first = evidence("fever")
    first.settings.CopyFrom(LENIENT)
    assert interview.add(first).max_questions == 5
    assert len(interview.add(evidence("gout")).evidence) == 2
    with pytest.raises(InputError, match=r"^settings: "):
        interview.add(first)


@pytest.mark.parametrize(
    ("talk", "complaint"),
    [
        ([message()], "said: empty"),
        ([message(not_known=False)], "said: empty"),
        ([evidence("fever"), evidence("fever", 2)], r"state\.evidence\[1\]: 'fever' "),  # validation_test.py has others
    ],
)
def test_what_has_no_clear_answer_is_refused(interview, talk, complaint):
    for request in talk[:-1]:
        interview.add(request)
    with pytest.raises(InputError, match=f"^{complaint}"):
        interview.add(talk[-1])

"""Questions and explanations of a server: who gets them, which come first, and how an interview goes on."""

import hashlib
import json

import numpy as np
import pytest

from schemas.evidence import Evidence, Vocabulary
from schemas.safety_rules import RuleSet, SafetyRule
from schemas.triage import Action
from tests.builders import http_to, network_of, served, trained_agent, write_version
from trainer.graph.mixture import Mixture
from triage_client import InvalidArgumentError, QuestionReason, TriageAction, TriageClient, evidence_state

EVIDENCE_COUNT = 40
AGES, SEXES, MEASURED = ("e30", "e31", "e32"), ("e35", "e36"), "e39"


def _entry(code):
    group = "age" if code in AGES else "sex" if code in SEXES else ""
    return Evidence(
        code, "symptom", code, f"{code}?", exclusive=group, instrument="stethoscope" if code == MEASURED else ""
    )


VOCABULARY = Vocabulary(_entry(f"e{cell}") for cell in range(EVIDENCE_COUNT))


@pytest.fixture(scope="module")
def base(without_litert, tmp_path_factory):
    """It always asks, and would otherwise say Green; of who has e20 it is sure. A yes to e2 beside e1 is a red flag."""
    kernel = np.zeros([EVIDENCE_COUNT, 5])
    kernel[20] = [0, 0, 2, 0, -2]
    flag = SafetyRule("flag", "A red flag.", Action.RED, True, all_of=(("e1", True), ("e2", True)))
    rules = RuleSet((flag,), "made", f"sha256:{hashlib.sha256(b'').hexdigest()}", "")
    generator = np.random.default_rng(0)
    present = generator.uniform(0.02, 0.4, [8, EVIDENCE_COUNT]).astype(np.float32)
    truths = generator.uniform(0.05, 0.95, [8, 8]).astype(np.float32)
    mixture = Mixture(np.full(8, np.log(1 / 8), np.float32), present, truths, present)
    trained = trained_agent(network_of((kernel, [0, 0, 1, 0, 2])), VOCABULARY, rules=rules, questions=mixture)
    base = tmp_path_factory.mktemp("models")
    with without_litert():
        write_version(base, trained)
    return base


@pytest.fixture(scope="module")
def server(base):
    with served(base, http_port=0, metrics_port=0) as server:
        yield server


@pytest.fixture(scope="module")
def http(server):
    with http_to(server) as http:
        yield http


def test_the_signature_of_questions_answers_by_tensors(http):
    state, not_to_ask = [0.0] * EVIDENCE_COUNT, [False] * EVIDENCE_COUNT
    body = {"signature_name": "questions", "inputs": {"states": [state], "not_to_ask": [not_to_ask]}}
    response = http.post("/v1/models/triage:predict", json=body)
    assert response.status_code == 200, response.text
    [cells] = response.json()["outputs"]["question_codes"]
    assert {f"e{cell}" for cell in cells[:2]} <= {*AGES, *SEXES}


def test_an_interview_opens_with_age_and_sex_to_choose_from(client, http):
    """Nothing is known of either, so they come before the red flag e2; of each group, one member stands for all."""
    asked = client.triage(evidence_state(["e1"]), questions=3).next_questions
    assert {tuple(question.one_of) for question in asked[:2]} == {AGES, SEXES}
    assert asked[0].code in asked[0].one_of
    assert {question.question for question in asked[:2]} == {"How old is the patient?", "What sex is the patient?"}
    assert (asked[2].code, list(asked[2].one_of)) == ("e2", [])
    over_http = http.post("/v1/triage", json={"present": ["e1"], "questions": 1}).json()["next_questions"]
    assert (over_http[0]["one_of"], over_http[0]["question"]) == (list(asked[0].one_of), asked[0].question)
    # Who cannot tell the age is not asked about another band of it; both answers together are one question.
    with client.interview(questions=3) as interview:
        first = interview.present("e1").response.next_questions[0]
        left = interview.not_known().response.next_questions
        assert not {question.code for question in left} & set(first.one_of)
    with client.interview(questions=3) as interview:
        interview.present("e1")
        answer = interview.present("e31", "e36")
        assert answer.questions_asked == 1
        assert answer.response.next_questions[0].code == "e2"
        assert not {question.code for question in answer.response.next_questions} & {*AGES, *SEXES}


def test_what_takes_an_instrument_is_asked_only_where_somebody_can_measure(client, http):
    """Everything else but the last two codes is known; the group of e39 is none."""
    rest = [code for code in VOCABULARY.codes if code not in ("e38", MEASURED, *AGES[1:], *SEXES[1:])]
    state = evidence_state([AGES[0], SEXES[0]], [code for code in rest if code not in (AGES[0], SEXES[0])])
    assert [question.code for question in client.triage(state, questions=3).next_questions] == ["e38"]
    able = client.triage(state, questions=3, can_measure=True).next_questions
    assert {question.code for question in able} == {"e38", MEASURED}
    [batched] = client.batch_triage([state], questions=3, can_measure=True)
    assert len(batched.next_questions) == 2
    body = {"present": [AGES[0], SEXES[0]], "absent": [each.code for each in state.evidence[2:]], "questions": 3}
    assert len(http.post("/v1/triage", json=body).json()["next_questions"]) == 1
    assert len(http.post("/v1/triage", json={**body, "can_measure": True}).json()["next_questions"]) == 2


ADULT = (AGES[1], SEXES[1])


def test_a_question_says_what_it_asks_and_why(client):
    [first, second] = client.triage(evidence_state(["e1", *ADULT]), questions=2).next_questions
    assert (first.code, first.question) == ("e2", "e2?")  # a yes would be the red flag
    assert first.reason == QuestionReason.QUESTION_REASON_RED_FLAG
    assert second.reason == QuestionReason.QUESTION_REASON_INFORMATION
    assert second.expected_gain > 0
    assert 0 < second.likely < 1


def test_no_question_is_about_what_is_not_to_be_asked_or_where_asking_is_not_possible(client):
    codes = [question.code for question in client.triage(evidence_state(["e3", *ADULT]), questions=10).next_questions]
    others = client.triage(evidence_state(["e3", *ADULT]), questions=10, not_to_ask=codes[:2]).next_questions
    assert [question.code for question in others][:8] == codes[2:]
    assert not client.triage(evidence_state(["e3"], no_more_evidence=True), questions=3).next_questions


def test_an_interview_asks_and_does_not_ask_again_what_nobody_could_tell(client):
    with client.interview(questions=2) as interview:
        answer = interview.present("e3", *ADULT)
        put = [question.code for question in answer.response.next_questions]
        assert len(put) == 2
        answer = interview.not_known()
        left = [question.code for question in answer.response.next_questions]
        assert left[0] == put[1]
        assert put[0] not in left
        assert answer.questions_asked == 1
        answer = interview.absent(left[0])
        assert put[0] not in [question.code for question in answer.response.next_questions]
        assert answer.response.action == TriageAction.TRIAGE_ACTION_ASK


def test_a_version_without_questions_says_so_where_they_are_asked_for(http_server):
    state = evidence_state(["chest_pain"])
    with TriageClient(http_server.address, timeout_seconds=60) as client:
        assert client.triage(state).action == TriageAction.TRIAGE_ACTION_RED
        with pytest.raises(InvalidArgumentError, match=r"version 3 .*questions"):
            client.triage(state, questions=1)
        interview = client.interview(questions=1)
        with interview, pytest.raises(InvalidArgumentError, match=r"settings\.questions: .*version 3"):
            interview.present("chest_pain")


def test_an_answer_explains_itself_where_that_is_asked_for(client):
    state = evidence_state(["e1", "e2"], ["e5"])
    assert not client.triage(state).HasField("explanation")
    why = client.triage(state, explain=True).explanation
    assert sorted(each.evidence.code for each in why.effects) == ["e1", "e2", "e5"]
    # The model itself says the same of every state; the rule for Red needs both of its pieces.
    assert sorted(each.code for each in why.sufficient) == ["e1", "e2"]


@pytest.mark.parametrize("over", [False, True])
def test_an_explanation_names_the_answers_that_would_turn_the_decision_also_where_no_more_are_asked_for(client, over):
    """What turns it is a yes to e2 beside e1, which fires the rule."""
    state = evidence_state(["e1", *ADULT], no_more_evidence=over)
    turning = client.triage(state, explain=True).explanation.turning
    assert [(each.evidence.code, each.best_triage) for each in turning] == [("e2", TriageAction.TRIAGE_ACTION_RED)]


def test_an_interview_over_http_suggests_one_question_or_as_many_as_it_is_asked_for(http):
    asks = http.post("/v1/interview", json={"present": ["e1", *ADULT]}).raise_for_status().json()
    assert (asks["done"], asks["decision"]) == (False, None)
    [question] = asks["questions"]
    assert (question["code"], question["question"], question["reason"]) == ("e2", "e2?", "red_flag")
    others = http.post("/v1/interview", json={"questions": 2, "not_to_ask": ["e2"]}).json()
    assert len(others["questions"]) == 2
    assert "e2" not in [each["code"] for each in others["questions"]]
    assert http.post("/v1/interview", json={"present": ["e1"], "questions": 0}).json()["questions"] == []
    over = http.post("/v1/interview", json={"present": ["e1"], "no_more_evidence": True}).json()
    assert (over["done"], over["decision"], over["questions"]) == (True, "Green", [])


def test_an_interview_over_http_goes_on_while_a_red_flag_is_open(http):
    def said(*present, **more):
        answer = http.post("/v1/interview", json={"present": ["e20", *present], **more}).raise_for_status().json()
        return answer["done"], answer["decision"], [question["code"] for question in answer["questions"]]

    assert said("e1", *ADULT) == (False, None, ["e2"])
    assert said("e1", *ADULT, absent=["e2"]) == (True, "Green", [])
    assert said("e1", *ADULT, not_to_ask=["e2"]) == (True, "Green", [])
    assert said("e1", "e2") == (True, "Red", [])
    assert said("e1", no_more_evidence=True) == (True, "Green", [])
    assert said("e1", questions=0) == (True, "Green", [])
    assert said("e3", *ADULT) == (True, "Green", [])
    done, _, questions = said("e3")  # age and sex come before any decision but Red
    assert (done, questions[0] in (*AGES, *SEXES)) == (False, True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"present": ["e1"], "questions": 11}, "questions"),
        ({"present": ["e1"], "not_to_ask": ["e2", "gout"]}, "not_to_ask[1]"),  # json_body_test.py has others
    ],
)
def test_over_http_a_faulty_wish_is_named(http, body, field):
    answer = http.post("/v1/triage", content=json.dumps(body))
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/v1/triage?questions=5", "questions"),
        ("POST", "/v1/interview?model=zzz", "model"),
        ("GET", "/v1/vocabulary?questions=5", "questions"),
    ],
)
def test_a_query_parameter_that_nobody_reads_is_refused(http, method, path, name):
    answer = http.request(method, path, json={"present": ["e1"]})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, name)

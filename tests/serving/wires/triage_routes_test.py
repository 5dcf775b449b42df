"""Our own API gives the answers of gRPC, and its refusals name fields of the JSON."""

import json

import pytest

from serving.wires.message_json import message_figures
from triage_client import TriageClient, evidence_state


@pytest.fixture(scope="module")
def grpc_client(http_server):
    with TriageClient(http_server.address, timeout_seconds=60.0) as client:
        yield client


STATES = [
    {"present": ["chest_pain"]},
    {"present": ["fever"], "absent": ["smoker"], "questions_asked": 3},
    {"present": ["fever"], "no_more_evidence": True},
    {"present": ["fever"], "questions_asked": 2, "max_questions": 2},
    {"present": ["fever", "gout"], "allow_unknown_codes": True},
]


@pytest.mark.parametrize("body", STATES)
def test_a_state_gets_the_answer_of_grpc(http, grpc_client, body):
    fields = dict(body)
    allow = fields.pop("allow_unknown_codes", False)
    expected = grpc_client.triage(evidence_state(**fields), allow_unknown_codes=allow)
    answer = http.post("/v1/triage", json=body)
    assert answer.status_code == 200
    assert answer.json() == message_figures(expected)


def test_an_interview_decides_or_asks_for_more(http):
    asks = http.post("/v1/interview", json={"present": ["fever"]}).json()
    assert (asks["done"], asks["decision"]) == (False, None)
    assert asks["questions"] == []  # this version cannot choose any
    ends = http.post("/v1/interview", json={"present": ["fever"], "no_more_evidence": True}).json()
    assert (ends["done"], ends["decision"], ends["answer"]["forced"]) == (True, "Yellow", True)
    nothing = http.post("/v1/interview", json={"no_more_evidence": True}).json()
    assert (nothing["done"], nothing["decision"]) == (True, None)  # a person must look


def test_the_model_and_its_vocabulary_are_described(http):
    entries = http.get("/v1/vocabulary").json()["entries"]
    assert entries[2] == {
        "code": "smoker", "kind": "risk_factor", "name": "smoker, by name", "question": "smoker, as a question?",
        "synonyms": [], "parent": "", "exclusive": "", "band": "", "instrument": "", "red_flag": False,
    }  # fmt: skip
    model = http.get("/v1/model").json()
    assert (model["model_version"], model["evidence_count"], model["max_questions"]) == ("3", 3, 10)


@pytest.mark.parametrize(
    ("body", "field", "reason"),
    [
        ({"present": ["fever"], "absent": ["smoker", "fevr"]}, "absent[1]", "UNKNOWN_CODE"),
        ({"present": ["fever"], "absent": ["fever"]}, "absent[0]", "CONTRADICTORY_EVIDENCE"),
        ({"present": ["fever"], "questions_asked": -1}, "questions_asked", "NEGATIVE_NUMBER"),
        ({"present": ["fever"] * 6}, "present", "TOO_MUCH_EVIDENCE"),
        ({"states": [{"present": ["fever"]}, {"present": ["gout"]}]}, "states[1].present[0]", "UNKNOWN_CODE"),
        ({"states": [{"present": ["fever"]}] * 81}, "states", "TOO_MANY_STATES"),
        ({"presents": ["fever"]}, "presents", "UNKNOWN_FIELD"),  # json_body_test.py has the others
    ],
)
def test_a_fault_names_the_field_of_the_body(http, body, field, reason):
    answer = http.post("/v1/triage", content=json.dumps(body))
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["reason"] == "INVALID_REQUEST"
    assert (problem["errors"][0]["field"], problem["errors"][0]["reason"]) == (field, reason)


def test_an_unknown_code_stands_beside_those_nearest_to_it(http):
    [fault] = http.post("/v1/triage", json={"present": ["fevr"]}).json()["errors"]
    assert (fault["code"], fault["nearest_codes"]) == ("fevr", ["fever"])

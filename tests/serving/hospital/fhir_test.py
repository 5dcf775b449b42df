"""The FHIR API, by foreign parsers of R4 and R5, over a whole interview of an SDC client that knows no codes."""

import json

import pytest
from fhir.resources import R4B, construct_fhir_element

from serving.service import TriageService
from tests.builders import http_to, served
from triage_client import TriageClient, evidence_state

BASE = "https://triage.example.org/fhir"
NEXT = "/fhir/Questionnaire/$next-question"
R4, R5 = "4.0", "5.0"
READ = {R4: R4B.construct_fhir_element, R5: construct_fhir_element}
EMPTY = {
    "resourceType": "QuestionnaireResponse",
    "contained": [{"resourceType": "Questionnaire", "id": "q", "status": "active",
                   "derivedFrom": [f"{BASE}/Questionnaire/triage"]}],
    "questionnaire": "#q",
    "status": "in-progress",
    "subject": {"reference": "Patient/proband"},
    "authored": "2026-08-21T20:36:57.544Z",
}  # fmt: skip
# What SDC's definitions of the two profiles that a form names demand, beside what R4 does.
DEMANDED = {
    "QuestionnaireResponse": {"contained", "questionnaire", "status", "subject", "authored"},
    "Questionnaire": {"extension", "title", "derivedFrom", "status"},
    "item": {"linkId", "text", "type"},
}


@pytest.fixture(scope="module")
def server(asking_watcher):
    with served(asking_watcher, http_port=0, fhir=BASE) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with http_to(server) as client:
        yield client


@pytest.fixture(scope="module")
def grpc_client(server):
    with TriageClient(server.address, timeout_seconds=60.0) as client:
        yield client


def _asking_for(fhir):
    return {"accept": f"application/fhir+json; fhirVersion={fhir}"} if fhir != R4 else {}


def _type(fhir):
    return "application/fhir+json" + (f"; fhirVersion={fhir}" if fhir != R4 else "")


def _next(client, form, fhir=R4):
    """The form after `$next-question`, and its Questionnaire and RiskAssessment, if it has one."""
    response = client.post(NEXT, json=form, headers=_asking_for(fhir))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == _type(fhir)
    form, read = response.json(), READ[fhir]
    read("QuestionnaireResponse", form)
    asked = next(each for each in form["contained"] if each["resourceType"] == "Questionnaire")
    assert read("Questionnaire", asked).id == form["questionnaire"].removeprefix("#")
    decided = next((each for each in form["contained"] if each["resourceType"] == "RiskAssessment"), None)
    if decided is not None:
        risk = read("RiskAssessment", decided)
        # The invariants of HL7's definition, which the parser does not check; only the container may be "#".
        assert all(0 <= each.probabilityDecimal <= 100 for each in risk.prediction if each.probabilityDecimal)
        assert [each.reference for each in risk.basis] == ["#"]
    if fhir == R4:
        assert all("/sdc-questionnaire" in each["meta"]["profile"][0] for each in (form, asked))
        assert DEMANDED["QuestionnaireResponse"] <= form.keys()
        assert DEMANDED["Questionnaire"] <= asked.keys()
        assert "url" not in asked  # which the profile prohibits
        assert all(DEMANDED["item"] <= item.keys() for item in asked.get("item", []))
    return form, asked, decided


def _options(question):
    return [each["valueCoding"]["display"] for each in question["answerOption"]]


def _answered(form, *answers):
    """The form with answers to some questions, each a question and what is chosen of what its options display."""
    items = []
    for question, *displays in answers:
        codings = {each["valueCoding"]["display"]: each["valueCoding"] for each in question["answerOption"]}
        chosen = [{"valueCoding": codings[display]} for display in displays]
        items.append({"linkId": question["linkId"], "text": question["text"], "answer": chosen})
    return {**form, "item": [*form.get("item", []), *items]}


def _with(*codes, **changes):
    """A form in which some questions were answered with yes."""
    items = [{"linkId": code, "answer": [{"valueBoolean": True}]} for code in codes]
    return {**EMPTY, "item": items, **changes}


@pytest.fixture
def states(monkeypatch):
    """The requests that reach the typed service, in their order."""
    requests, triage = [], TriageService.triage
    monkeypatch.setattr(
        TriageService,
        "triage",
        lambda self, request, **others: requests.append(request) or triage(self, request, **others),
    )
    return requests


@pytest.mark.parametrize(("fhir", "kind"), [(R4, "choice"), (R5, "coding")])
def test_a_client_that_knows_no_codes_goes_from_an_empty_form_to_a_decision(client, server, grpc_client, fhir, kind):
    form, asked, decided = _next(client, EMPTY, fhir)
    assert (form["status"], decided) == ("in-progress", None)
    [complaint] = asked["item"]
    assert (complaint["linkId"], complaint["repeats"], len(complaint["answerOption"])) == ("complaint", True, 12)
    form, asked, decided = _next(client, _answered(form, (complaint, "Headache")), fhir)
    assert decided["status"] == "preliminary"
    present, absent, answers = ["headache"], [], {"Yes": True, "No": False}
    while form["status"] == "in-progress":
        assert len(asked["item"]) == 2 + len(present) - 1 + len(absent)
        expected = grpc_client.triage(
            evidence_state(present, absent, questions_asked=len(present) - 1 + len(absent)), questions=1
        )
        code = asked["item"][-1]["linkId"]
        assert (code, asked["item"][-1]["text"]) == (
            f"?{expected.next_questions[0].code}", expected.next_questions[0].question
        )  # fmt: skip
        said = "No" if len(absent) < 2 else "Yes"
        (present if answers[said] else absent).append(code.removeprefix("?"))
        form, asked, decided = _next(client, _answered(form, (asked["item"][-1], said)), fhir)
    assert {item["type"] for item in asked["item"]} == {kind}
    assert decided["status"] == "final"
    assert decided["prediction"][0]["outcome"]["text"] in ("Red", "Yellow", "Green", "Blue")
    assert decided["subject"] == {"reference": "Patient/proband"}
    assert "model version 1" in decided["method"]["text"]
    assert decided["note"][0]["text"].startswith("Research only")
    assert [item["linkId"] for item in form["item"]] == [item["linkId"] for item in asked["item"]]


@pytest.fixture(scope="module")
def opening_client(opening_watcher):
    with served(opening_watcher, http_port=0, fhir=BASE) as server, http_to(server) as client:
        yield client


AGE, SEX = "How old is the patient?", "What sex is the patient?"


@pytest.mark.parametrize(("age", "sex"), [("Adult", "Male"), ("Don't know", "Male"), ("Child", "Don't know")])
def test_age_and_sex_are_choices_of_one_round_and_one_question(opening_client, states, age, sex):
    form, asked, _ = _next(opening_client, _with("headache"))
    questions = {question["text"]: question for question in asked["item"]}
    assert {text: _options(question) for text, question in questions.items()} == {
        AGE: ["Child", "Adult", "Don't know"], SEX: ["Female", "Male", "Don't know"]
    }  # fmt: skip
    form, asked, _ = _next(opening_client, _answered(form, (questions[AGE], age), (questions[SEX], sex)))
    present = {piece.code for piece in states[-1].state.evidence}
    assert present == {"headache", age.lower(), sex.lower()} - {"don't know"}
    assert states[-1].state.questions_asked == 1
    assert [_options(question) for question in asked["item"][:2]] == [_options(questions[text]) for text in (AGE, SEX)]
    assert _options(asked["item"][-1]) == ["Yes", "No", "Don't know"]
    assert form["status"] == "in-progress"


def test_what_is_no_member_of_the_group_is_refused(opening_client):
    answer = [{"valueCoding": {"code": "female"}}]
    response = opening_client.post(NEXT, json={**EMPTY, "item": [{"linkId": "adult", "answer": answer}]})
    assert response.status_code == 400
    assert response.json()["issue"][0]["expression"] == ["QuestionnaireResponse.item[0].answer[0]"]


@pytest.fixture(scope="module")
def grouping_client(grouping_watcher):
    with served(grouping_watcher, http_port=0, fhir=BASE) as server, http_to(server) as client:
        yield client


@pytest.mark.parametrize(
    ("said", "present", "absent"),
    [
        (["Rash"], {"rash"}, {"fever", "stiff_neck"}),
        (["Rash", "Fever"], {"rash", "fever"}, {"stiff_neck"}),
        (["None of these"], set(), {"rash", "fever", "stiff_neck"}),
        (["Don't know"], set(), set()),
        ([], set(), set()),
    ],
)
def test_several_red_flags_are_one_question_that_repeats(grouping_client, states, said, present, absent):
    form, asked, _ = _next(grouping_client, _with("headache"))
    [question] = asked["item"]
    assert (question["text"], question["repeats"]) == ("Do you have any of these?", True)
    assert sorted(_options(question)[:3]) == ["Fever", "Rash", "Stiff neck"]
    assert _options(question)[3:] == ["None of these", "Don't know"]
    assert [len(option.get("extension", [])) for option in question["answerOption"]] == [0, 0, 0, 1, 1]  # exclusive
    form, asked, _ = _next(grouping_client, _answered(form, (question, *said)))
    found = {piece.code: piece.status for piece in states[-1].state.evidence}
    assert found == {"headache": 1, **dict.fromkeys(present, 1), **dict.fromkeys(absent, 2)}
    assert states[-1].state.questions_asked == 1
    assert set(states[-1].not_to_ask) == (set() if said and said != ["Don't know"] else {"rash", "fever", "stiff_neck"})
    assert asked["item"][0] == question  # as it was put
    assert not asked["item"][1].get("repeats")


def test_what_was_asked_is_in_the_items_where_a_client_drops_the_questionnaire(grouping_client, states):
    form, asked, _ = _next(grouping_client, _with("headache", contained=None))
    counts = []
    while form["status"] == "in-progress":
        answered = _answered(form, (asked["item"][-1], _options(asked["item"][-1])[-2]))  # None of these, then No
        del answered["contained"]
        form, asked, _ = _next(grouping_client, answered)
        counts.append(states[-1].state.questions_asked)
    assert counts == list(range(1, len(counts) + 1))
    denied = {piece.code for piece in states[-1].state.evidence if piece.status == 2}
    assert {"fever", "rash", "stiff_neck"} < denied


def test_contained_resources_of_others_are_returned_as_they_came(client):
    others = [
        {"resourceType": "Questionnaire", "id": "phq9", "status": "active", "item": [{"linkId": "1", "type": "group"}]},
        {"resourceType": "RiskAssessment", "id": "falls", "status": "final", "subject": {"reference": "#p"}},
        {"resourceType": "Patient", "id": "p"},
    ]
    form = _with("headache", contained=[*EMPTY["contained"], *others])
    for _ in range(2):
        form = client.post(NEXT, json=form).json()
        assert [each for each in form["contained"] if each in others] == others
        assert [each["id"] for each in form["contained"] if each not in others] == ["triage", "decision"]


@pytest.mark.parametrize("part", ["item", "answer"])
def test_questions_in_groups_and_below_answers_are_read(client, states, part):
    sweating = {"linkId": "sweating", "answer": [{"valueBoolean": True}]}
    below = {"linkId": "crushing_chest_pain", "answer": [{"valueBoolean": True, "item": [sweating]}]}
    group = {"linkId": "history", "item": [{**below, "answer": [{"valueBoolean": True}]}, sweating]}
    _, _, decided = _next(client, {**EMPTY, "item": [below if part == "answer" else group]})
    assert {piece.code for piece in states[-1].state.evidence} == {"crushing_chest_pain", "sweating"}
    assert decided["prediction"][0]["outcome"]["text"] == "Red"


def test_the_complaint_is_asked_first_where_only_other_things_are_known(opening_client):
    form, asked, decided = _next(opening_client, _with("adult", "female"))
    assert ([item["linkId"] for item in asked["item"]], decided) == (["complaint"], None)
    headache = next(each for each in _options(asked["item"][0]) if each == "Headache")
    form, asked, decided = _next(opening_client, _answered(form, (asked["item"][0], headache)))
    assert decided is not None


def test_a_rule_that_decides_is_the_rationale_of_the_first_prediction(client):
    form, _, decided = _next(client, _with("crushing_chest_pain", "sweating"))
    assert decided["prediction"][0]["outcome"]["text"] == "Red"
    assert decided["prediction"][0]["rationale"] == "A red flag."
    assert form["status"] == "completed"


def test_what_is_not_known_is_not_asked_again(client):
    form, asked, _ = _next(client, _with("headache"))
    first = asked["item"][-1]["linkId"]
    declined = [{"valueCoding": {"code": "asked-declined"}}]
    for unknown in (
        _answered(form, (asked["item"][-1], "Don't know")),
        {**form, "item": [*form["item"], {"linkId": first, "answer": declined}]},
        {**form, "item": [*form["item"], {"linkId": first}]},
    ):
        _, again, _ = _next(client, unknown)
        assert [item["linkId"] for item in again["item"]].count(first) == 1


def test_what_hl7s_example_of_an_adaptive_form_has_is_understood_or_kept(client):
    """As `adaptive-questionnaireresponse-sdc-example-phq9`: codings without a system, texts and other resources."""
    values = {"resourceType": "ValueSet", "id": "VS", "status": "draft",
              "compose": {"include": [{"system": f"{BASE}/CS", "concept": [{"code": "Several-days"}]}]}}  # fmt: skip
    questions = {**EMPTY["contained"][0], "version": "0.0.1", "name": "TRIAGE", "title": "Triage",
                 "extension": [{"url": "http://hl7.org/fhir/uv/sdc/StructureDefinition/sdc-questionnaire-"
                                       "questionnaireAdaptive", "valueBoolean": True}],
                 "item": [{"linkId": "?headache", "prefix": "1.", "text": "Headache?", "type": "choice",
                           "required": True, "repeats": False, "answerValueSet": "#VS"}]}  # fmt: skip
    said = {"linkId": "?headache", "text": "Headache?", "answer": [{"valueCoding": {"code": "Y", "display": "Yes"}}]}
    sent = {**EMPTY, "id": "adaptive", "contained": [questions, values], "identifier": {"value": "adaptive-1"},
            "author": {"reference": "Patient/proband"}, "item": [said]}  # fmt: skip
    form, asked, decided = _next(client, sent)
    changed = {key for key in form if form[key] != sent.get(key)}
    assert changed == {"meta", "contained", "questionnaire"}
    assert form["contained"][1] == values
    assert asked["item"][0]["linkId"] == "?headache"
    assert decided["status"] == "preliminary"


def test_parameters_wrap_the_form(client):
    parameters = {"resourceType": "Parameters", "parameter": [{"name": "questionnaire-response", "resource": EMPTY}]}
    assert client.post(NEXT, json=parameters).json() == client.post(NEXT, json=EMPTY).json()


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"item": [{"linkId": "headach", "answer": [{"valueBoolean": True}]}]}, "QuestionnaireResponse.item[0].linkId"),
        ({"item": [{"linkId": "complaint", "answer": [{"valueCoding": {"code": each}} for each in ("fever", "x")]}]},
         "QuestionnaireResponse.item[0].answer[1]"),
        ({"item": [{"linkId": "fever"}, {"linkId": "fever"}]}, "QuestionnaireResponse.item[1].linkId"),
        ({"item": [{"linkId": "fever", "answer": [{"valueString": "yes"}]}]},
         "QuestionnaireResponse.item[0].answer[0]"),
        ({"item": [{"linkId": "fever", "answer": [{"valueCoding": {"code": "maybe"}}]}]},
         "QuestionnaireResponse.item[0].answer[0]"),
        ({"item": [{"linkId": "fever", "answer": [{"valueBoolean": True}, {"valueBoolean": False}]}]},
         "QuestionnaireResponse.item[0].answer"),
        ({"item": [{"answer": []}]}, "QuestionnaireResponse.item[0].linkId"),
        ({"item": [{"linkId": "fever", "answers": [{"valueBoolean": True}]}]},
         "QuestionnaireResponse.item[0].answers"),
        ({"item": [{"linkId": "fever", "answer": [{"valueBoolean": True, "modifierExtension": [{"url": "urn:x"}]}]}]},
         "QuestionnaireResponse.item[0].answer[0]"),
        ({"item": [{"linkId": "fever", "answer": [{"valueBoolean": True, "valueInteger": 0}]}]},
         "QuestionnaireResponse.item[0].answer[0]"),
        ({"status": "entered-in-error"}, "QuestionnaireResponse.status"),
        ({"modifierExtension": [{"url": "urn:x"}]}, "QuestionnaireResponse.modifierExtension"),
        ({"item": {}}, "QuestionnaireResponse.item"),
        # A form of groups, as HL7's PHQ-9, is not taken for this one.
        ({"item": [{"linkId": "H1/T1", "item": [{"linkId": "Q1"}]}]}, "QuestionnaireResponse.item[0].item[0].linkId"),
        ({"item": [{"linkId": "fever", "answer": [{"valueBoolean": True, "item": [{"linkId": "Q1"}]}]}]},
         "QuestionnaireResponse.item[0].answer[0].item[0].linkId"),
        ({"item": [{"linkId": "?fever|Q1"}]}, "QuestionnaireResponse.item[0].linkId"),
        ({"resourceType": "Patient"}, None),
    ],
)  # fmt: skip
def test_a_fault_is_an_operation_outcome_that_names_the_place(client, changes, place):
    response = client.post(NEXT, json={**EMPTY, **changes})
    assert (response.status_code, response.headers["content-type"]) == (400, "application/fhir+json")
    R4B.construct_fhir_element("OperationOutcome", response.json())
    assert response.json()["issue"][0].get("expression") == (None if place is None else [place])


TWICE = [{"name": "questionnaire-response", "resource": EMPTY}] * 2


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", *(
    json.dumps({"resourceType": "Parameters", "parameter": given}) for given in ([None], [], TWICE))])  # fmt: skip
def test_what_is_not_one_resource_is_refused(client, body):
    response = client.post(NEXT, content=body)
    assert response.status_code == 400
    R4B.construct_fhir_element("OperationOutcome", response.json())


@pytest.mark.parametrize(("fhir", "version"), [(R4, "4.0.1"), (R5, "5.0.0")])
def test_it_says_what_it_offers(client, fhir, version):
    statement = client.get("/fhir/metadata", headers=_asking_for(fhir))
    assert statement.headers["content-type"] == _type(fhir)
    read = READ[fhir]("CapabilityStatement", statement.json())
    assert (read.fhirVersion, read.implementation.url) == (version, BASE)
    form = client.get("/fhir/Questionnaire/triage", headers=_asking_for(fhir)).json()
    assert READ[fhir]("Questionnaire", form).url == f"{BASE}/Questionnaire/triage"
    assert "item" not in form  # adaptive
    missing = client.get("/fhir/Questionnaire/phq9")
    assert (missing.status_code, missing.json()["issue"][0]["code"]) == (404, "not-found")


def test_the_version_of_a_body_is_that_of_its_answer_unless_another_is_asked_for(client):
    written = {"content-type": 'application/fhir+json; fhirVersion="5.0"'}
    for headers, kind in (
        (written, "coding"),
        (written | {"accept": "application/fhir+json;fhirVersion=4.0"}, "choice"),
    ):
        [form, *_] = client.post(NEXT, json=EMPTY, headers=headers).json()["contained"]
        assert form["item"][0]["type"] == kind


@pytest.mark.parametrize("media", ["application/fhir+json; fhirVersion=3.0", "application/fhir+xml", "text/xml"])
@pytest.mark.parametrize(("header", "status"), [("accept", 406), ("content-type", 415)])
def test_other_versions_and_xml_are_refused_by_name(client, media, header, status):
    response = client.post(NEXT, json=EMPTY, headers={header: media})
    assert response.status_code == status
    [issue] = response.json()["issue"]
    assert issue["code"] == "not-supported"
    assert media.rpartition(" ")[2] in issue["diagnostics"]


@pytest.mark.parametrize(
    ("accept", "wanted", "status"),
    [
        ("application/fhir+json", "xml", 406),
        ("application/fhir+xml", "json", 200),
        ("application/fhir+xml, application/fhir+json;q=0.9", None, 200),
        ("text/html, application/xml;q=0.9, */*;q=0.8", None, 200),
    ],
)
def test_json_is_answered_where_the_caller_takes_it(client, accept, wanted, status):
    parameters = {"_format": wanted} if wanted else {}
    assert client.get("/fhir/metadata", headers={"accept": accept}, params=parameters).status_code == status


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/fhir", 404, "not-found"),
        ("GET", "/fhir/Patient/1", 404, "not-found"),
        ("POST", "/fhir/metadata", 405, "not-supported"),
        ("DELETE", "/fhir/Questionnaire/triage", 405, "not-supported"),
    ],
)
def test_a_path_that_does_not_exist_is_an_operation_outcome(client, method, path, status, code):
    response = client.request(method, path)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/fhir+json")
    assert READ[R4]("OperationOutcome", response.json()).issue[0].code == code
    assert ("allow" in response.headers) == (status == 405)
    assert client.get("/fhirs").headers["content-type"] == "application/problem+json"


def test_a_version_that_cannot_choose_questions_says_so(watcher):
    with served(watcher, http_port=0, fhir=BASE) as server, http_to(server) as client:
        response = client.post(NEXT, json=_with("fever"))
    assert (response.status_code, response.json()["issue"][0]["code"]) == (501, "not-supported")

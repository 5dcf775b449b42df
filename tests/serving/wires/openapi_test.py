"""The document describes what the server does on every route."""

import copy
import re

import jsonschema
import pytest

from tests.builders import http_to
from tests.serving.conftest import LIMITS, PREDICT, TOKEN


@pytest.fixture(scope="module")
def client(full_server):
    with http_to(full_server, headers=TOKEN) as client:
        yield client


@pytest.fixture(scope="module")
def document(client):
    return client.get("/openapi.json").json()


def closed(schema):
    """The same schema, which takes no fields but those that it describes."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    same = {name: closed(each) for name, each in schema.items()}
    described = schema.get("type") == "object" and "properties" in schema and "resourceType" not in schema["properties"]
    return same | ({"additionalProperties": False} if described else {})


def check(document, path, answer):
    """Checks that an answer is one that the document describes for the path, field by field."""
    operation = document["paths"][path][answer.request.method.lower()]
    described = operation["responses"][str(answer.status_code)]["content"]
    media_type = answer.headers["content-type"].partition(";")[0]
    assert media_type in described, (path, answer.status_code, media_type)
    if media_type.endswith("json"):
        schema = closed({**described[media_type]["schema"], "components": copy.deepcopy(document["components"])})
        jsonschema.validate(answer.json(), schema)


FORM = {"resourceType": "QuestionnaireResponse", "status": "in-progress"}
PATIENT = {"resourceType": "Patient", "gender": "male"}
CONTEXT = {"patientId": "p"}
HOOK = {"hook": "patient-view", "hookInstance": "h", "context": CONTEXT, "prefetch": {"patient": PATIENT}}
ROW = {"present": ["fever"], "absent": [""], "questions_asked": 0}
BODIES = {
    "/v1/triage": {"present": ["fever"], "questions": 2, "explain": True, "defer_below": 1},
    "/v1/interview": {"present": ["fever"]},
    PREDICT: {"instances": [{"present": ["fever"]}]},
    "/v1/models/{model}:predict": {"instances": [ROW]},
    "/v1/models/{model}/versions/{version}:predict": {"instances": [ROW]},
    "/v1/models/{model}/labels/{label}:predict": {"inputs": {name: [value] for name, value in ROW.items()}},
    "/fhir/Questionnaire/$next-question": FORM,
    "/cds-services/{name}": HOOK,
    "/cds-services/{name}/feedback": {
        "feedback": [{"card": "c", "outcome": "accepted", "outcomeTimestamp": "2026-03-01T11:00:00Z"}]
    },
}
PLACES = {"model": "triage", "version": "1", "label": "stable", "name": "triage"}


def test_every_route_answers_as_the_document_says(client, document):
    assert document["openapi"] == "3.1.0"
    for path, methods in document["paths"].items():
        for method in methods:
            body = {"json": BODIES[path]} if method == "post" else {}
            for described in methods[method].get("requestBody", {}).get("content", {}).values():
                jsonschema.validate(BODIES[path], {**described["schema"], "components": document["components"]})
            answer = client.request(method.upper(), path.format(**PLACES), **body)
            assert answer.status_code == 200, (path, answer.text)
            check(document, path, answer)


BODIES_REFUSED = [
    ({"content": b"{"}, 400),
    ({"content": b"\xff"}, 400),
    ({"content": b'{"a": NaN}'}, 400),
    ({"content": b"[]"}, 400),
    ({"content": b" " * (LIMITS["max_message_bytes"] + 1)}, 413),
    ({"content": b"{}", "headers": {"content-encoding": "gzip"}}, 415),
    ({"content": [b" " * 17_000]}, 411),  # large, and does not say how large
]


def test_every_route_refuses_as_the_document_says(client, document):
    """A missing token and one without the role; a model, version, label or form that is not there; faulty bodies."""

    def ask(method, path, url, **request):
        answer = client.request(method.upper(), url, **request)
        check(document, path, answer)
        return answer

    others = {"model": "other", "version": "7", "label": "other", "name": "other"}
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            url, body = path.format(**PLACES), {"json": BODIES[path]} if method == "post" else {}
            for token, status in (("", 401), ("Bearer reader", 403)):
                answer = ask(method, path, url, headers={"authorization": token}, **body)
                assert answer.status_code == (status if "security" not in described else 200), path
                assert (answer.headers.get("www-authenticate") == "Bearer") is (answer.status_code == 401), path
            for name in re.findall(r"{(\w+)}", path):
                assert ask(method, path, path.format(**PLACES | {name: others[name]}), **body).status_code in (400, 404)
            if method == "post":
                for request, status in BODIES_REFUSED:
                    assert ask(method, path, url, **request).status_code == status, path
                ask(method, path, url, content=b"{}")
    unread = ask("post", "/cds-services/{name}", "/cds-services/triage", json={**HOOK, "prefetch": {}})
    assert unread.status_code == 412
    for path in ("/v1/vocabulary", "/v1/model"):
        assert ask("get", path, f"{path}?model=other").status_code == 404
    assert ask("get", "/v1/model", "/v1/model", headers=[("a", "b")] * 101).status_code == 431


def test_answers_of_other_forms_are_described(client, document):
    for body in ({"states": [{"present": ["fever"]}]}, {"present": ["fever"], "absent": ["fever"]}, {"present": ["x"]}):
        check(document, "/v1/triage", client.post("/v1/triage", json=body))


@pytest.mark.parametrize(
    ("name", "body", "fits"),
    [
        ("Patient", {"present": ["fever"], "questions": 10, "defer_below": 1}, True),
        ("Patient", {"presents": []}, False),
        ("Patient", {"present": [""]}, False),
        ("Patient", {"present": ["a" * 129]}, False),
        ("Patient", {"questions": 11}, False),
        ("Patient", {"questions_asked": -1}, False),
        ("Patient", {"defer_below": 1.5}, False),
        ("Batch", {"states": [{}] * 4}, True),
        ("Batch", {"states": [{}] * 5}, False),
        ("Instances", {"instances": [{}] * 5}, False),
    ],
)
def test_the_limits_of_bodies_are_those_of_the_server(client, document, name, body, fits):
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    assert jsonschema.Draft202012Validator(schema).is_valid(body) is fits
    path = PREDICT if name == "Instances" else "/v1/triage"
    assert (client.post(path, json=body).status_code == 200) is fits


def test_it_lists_the_routes_of_its_own_server_alone(http, client, document):
    own = http.get("/openapi.json").json()
    assert set(document["paths"]) - set(own["paths"]) == {PREDICT, PREDICT.removesuffix(":predict")} | {
        path for path in document["paths"] if path.startswith(("/fhir/", "/cds-services"))
    }
    assert (document["security"], own["security"]) == ([{"token": []}], [])
    identifiers = [each["operationId"] for methods in document["paths"].values() for each in methods.values()]
    assert len(identifiers) == len(set(identifiers))

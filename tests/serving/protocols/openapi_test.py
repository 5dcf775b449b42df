"""The document describes what the server does, and its page loads nothing."""

import re

import jsonschema
import pytest


def schema(document, name):
    return {"$ref": f"#/components/schemas/{name}", "components": document["components"]}


@pytest.fixture(scope="module")
def document(http):
    return http.get("/openapi.json").json()


def test_each_path_answers_as_the_document_says(http, document):
    assert document["openapi"] == "3.1.0"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            body = {"json": {"present": ["fever"]}} if method == "post" else {}
            # A token that is missing, one without the role, a caller above its rate, and no version.
            assert {"401", "403", "429", "503"} <= set(operation["responses"])
            answer = http.request(method.upper(), path, **body)
            assert answer.status_code == 200, path
            described = operation["responses"]["200"]["content"]["application/json"]["schema"]
            jsonschema.validate(answer.json(), {**described, "components": document["components"]})


def test_problems_and_requests_fit_the_document(http, document):
    problem = http.post("/v1/triage", json={"present": ["gout"]}).json()
    jsonschema.validate(problem, schema(document, "Problem"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"presents": []}, schema(document, "Patient"))


def test_the_page_loads_nothing(http):
    page = http.get("/")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert re.findall(r"<(script|img|link|iframe)|https?://(?!127)", page.text) == []
    assert "POST /v1/interview" in page.text

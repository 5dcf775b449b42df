"""The paths around the API: health, the document, Vertex AI's routes, other sites, and what is not there."""

import pytest

from serving.config import vertex
from tests.builders import http_to, served


def test_what_is_not_there_is_a_problem(http):
    missing = http.get("/v1/other")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
    wrong = http.get("/v1/triage")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


def test_other_sites_may_call_only_if_they_are_named(http, watcher):
    asked = {"origin": "https://triage.example.org"}
    assert "access-control-allow-origin" not in http.get("/v1/model", headers=asked).headers
    with served(watcher, http_port=0, cors_origins=asked["origin"]) as server, http_to(server) as client:
        allowed = client.get("/v1/model", headers=asked)
        assert allowed.headers["access-control-allow-origin"] == asked["origin"]
        refused = client.get("/v1/model", headers={"origin": "https://elsewhere.example.org"})
        assert "access-control-allow-origin" not in refused.headers


@pytest.fixture
def vertex_client(watcher, monkeypatch):
    monkeypatch.setenv(vertex.PREDICT, "/v1/endpoints/1/deployedModels/2:predict")
    monkeypatch.setenv(vertex.HEALTH, "/v1/endpoints/1/deployedModels/2")
    with served(watcher, http_port=0) as server, http_to(server) as client:
        yield client


def test_vertex_ai_gets_typed_answers_at_its_own_paths(vertex_client):
    path = "/v1/endpoints/1/deployedModels/2"
    assert vertex_client.get(path).status_code == 200
    body = {"instances": [{"present": ["chest_pain"]}, {"present": ["gout", "fever"]}]}
    refused = vertex_client.post(f"{path}:predict", json=body)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "instances[1].present[0]")
    body["parameters"] = {"allow_unknown_codes": True}
    predictions = vertex_client.post(f"{path}:predict", json=body).json()["predictions"]
    assert [answer["action"] for answer in predictions] == ["Red", "ask"]
    assert predictions[1]["unknown_codes"] == ["gout"]
    assert vertex_client.post(f"{path}:predict", json={}).status_code == 400

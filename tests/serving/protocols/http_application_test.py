"""The paths around the API: health, the document, Vertex AI's routes, other sites, and what is not there."""

import httpx
import pytest

from serving.config import vertex
from serving.config.settings import ServeConfig
from serving.server.triage_server import TriageServer


def test_health_tells_alive_from_ready(http):
    assert http.get("/healthz").json() == {"live": True}
    assert http.get("/readyz").json() == {"ready": True}


def test_what_is_not_there_is_a_problem(http):
    assert (http.get("/v1/other").status_code, http.get("/v1/other").json()["title"]) == (
        404, "There is no such thing here",
    )  # fmt: skip
    wrong = http.get("/v1/triage")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


def test_other_sites_may_call_only_if_they_are_named(http, watcher):
    asked = {"origin": "https://triage.example.org"}
    assert "access-control-allow-origin" not in http.get("/v1/model", headers=asked).headers
    config = ServeConfig(port=0, http_port=0, grace_seconds=0.0, cors_origins=asked["origin"])
    server = TriageServer(config)
    server.start(watcher)
    try:
        with httpx.Client(base_url=server.http.url, trust_env=False, timeout=60) as client:
            allowed = client.get("/v1/model", headers=asked)
            assert allowed.headers["access-control-allow-origin"] == asked["origin"]
            refused = client.get("/v1/model", headers={"origin": "https://elsewhere.example.org"})
            assert "access-control-allow-origin" not in refused.headers
    finally:
        server.stop()


@pytest.fixture
def vertex_client(watcher, monkeypatch):
    monkeypatch.setenv(vertex.PREDICT, "/v1/endpoints/1/deployedModels/2:predict")
    monkeypatch.setenv(vertex.HEALTH, "/v1/endpoints/1/deployedModels/2")
    server = TriageServer(ServeConfig(port=0, http_port=0, grace_seconds=0.0))
    server.start(watcher)
    with httpx.Client(base_url=server.http.url, trust_env=False, timeout=60) as client:
        yield client
    server.stop()


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

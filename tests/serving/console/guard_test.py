"""Who may talk to the console."""

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from serving.console.guard import POLICY, Guard


@pytest.fixture
def client():
    async def answer(request):
        return PlainTextResponse("answered")

    return TestClient(Guard(Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])))


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8510", "localhost", "localhost:9000", "[::1]:8510", "[::1]", "127.9.9.9", "LOCALHOST:1"]
)
def test_loopback_names_are_answered(client, host):
    assert client.get("/", headers={"host": host}).text == "answered"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8510", "192.168.1.4:8510", "localhost.evil.example", "127.0.0.1.evil", ""]
)
def test_other_names_for_this_machine_are_refused(client, host):
    response = client.get("/", headers={"host": host})
    assert (response.status_code, "loopback" in response.text) == (403, True)


HERE = {"host": "localhost:8510"}


def test_forms_of_the_console_itself_are_answered(client):
    headers = HERE | {"origin": "http://localhost:8510", "sec-fetch-site": "same-origin"}
    assert client.post("/", headers=headers).status_code == 200
    assert client.get("/", headers=HERE | {"sec-fetch-site": "none"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:8511"},  # another program on this machine
        {"origin": "https://localhost:8510"},
        {"origin": "http://127.0.0.1:8510"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_pages_of_other_origins_are_refused(client, method, headers):
    response = client.request(method, "/", headers=HERE | headers)
    assert (response.status_code, "another" in response.text) == (403, True)


def test_every_answer_tells_the_browser_to_load_nothing_from_outside_and_to_keep_nothing(client):
    for response in (client.get("/", headers=HERE), client.get("/", headers={"host": "evil.example"})):
        assert response.headers["content-security-policy"] == POLICY
        assert response.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in POLICY
    assert "unsafe" not in POLICY

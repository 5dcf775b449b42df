"""Pages of other sites get no answers from a server without tokens."""

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from serving.config.settings import ServeConfig
from serving.wires.http_pages import KnownPages

ORIGIN = "https://triage.example.org"


def answer(headers, **settings):
    """The status of a request to a server with some settings."""

    async def answered(request):
        return PlainTextResponse("answered")

    app = KnownPages(Starlette(routes=[Route("/", answered)]), ServeConfig(http_port=0, **settings))
    return TestClient(app, "http://127.0.0.1:8501").get("/", headers=headers).status_code


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8501"}, 200),
        ({"host": "[::1]:8501", "origin": "http://[::1]:8501"}, 200),
        ({"host": "rebound.example.com:8501"}, 403),
        ({"host": "localhost:8501", "origin": "https://evil.example.com"}, 403),
        ({"host": "localhost:8501", "origin": "null"}, 403),
        ({"host": "triage.example.org", "origin": ORIGIN}, 403),
    ],
)
def test_a_server_on_loopback_answers_its_own_pages_only(headers, status):
    assert answer(headers) == status


@pytest.mark.parametrize("headers", [{"host": "triage.example.org"}, {"origin": ORIGIN}])
def test_a_server_answers_pages_of_the_given_origins_under_their_names(headers):
    assert answer(headers, cors_origins=f"https://other.example.org,{ORIGIN}") == 200
    assert answer({"origin": "https://evil.example.com"}, cors_origins=ORIGIN) == 403


@pytest.mark.parametrize("option", ["host", "http_host"])
def test_another_server_may_have_any_name_and_still_refuses_foreign_pages(option):
    settings = {option: "0.0.0.0", "insecure": True}  # noqa: S104
    assert answer({"host": "triage.example.org", "origin": ORIGIN}, **settings) == 200
    assert answer({"host": "triage.example.org", "origin": "https://evil.example.com"}, **settings) == 403

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


LOCAL, NAMED, EVIL = {"host": "localhost:8501"}, {"host": "triage.example.org"}, {"origin": "https://evil.example.com"}
KNOWN = {"cors_origins": f"https://other.example.org,{ORIGIN}"}
OPEN = [{option: "0.0.0.0", "insecure": True} for option in ("host", "http_host")]  # noqa: S104


@pytest.mark.parametrize(
    ("settings", "headers", "status"),
    [
        ({}, {}, 200),
        ({}, LOCAL, 200),
        ({}, {"host": "[::1]:8501", "origin": "http://[::1]:8501"}, 200),
        ({}, {"host": "rebound.example.com:8501"}, 403),
        ({}, LOCAL | EVIL, 403),
        ({}, LOCAL | {"origin": "null"}, 403),
        ({}, NAMED | {"origin": ORIGIN}, 403),
        (KNOWN, NAMED, 200),
        (KNOWN, {"origin": ORIGIN}, 200),
        (KNOWN, EVIL, 403),
        *((settings, NAMED | {"origin": ORIGIN}, 200) for settings in OPEN),  # which may have any name
        *((settings, NAMED | EVIL, 403) for settings in OPEN),
    ],
)
def test_a_server_answers_its_own_pages_and_those_of_the_given_origins_only(settings, headers, status):
    assert answer(headers, **settings) == status

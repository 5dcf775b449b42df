"""Who may talk to the console."""

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from serving.console.guard import POLICY, Guard, Shared


async def _answer(request):
    return PlainTextResponse("answered")


PAGES = Starlette(routes=[Route("/", _answer, methods=["GET", "POST"]), Route("/model", _answer)])


@pytest.fixture
def client():
    return TestClient(Guard(PAGES))


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8510", "localhost", "localhost:9000", "[::1]:8510", "[::1]", "127.9.9.9", "LOCALHOST:1"]
)
def test_loopback_names_are_answered(client, host):
    assert client.get("/", headers={"host": host}).text == "answered"


HERE = {"host": "localhost:8510"}
OTHERS = ("evil.example", "evil.example:8510", "192.168.1.4:8510", "localhost.evil.example", "127.0.0.1.evil", "")


def test_forms_of_the_console_itself_are_answered(client):
    headers = HERE | {"origin": "http://localhost:8510", "sec-fetch-site": "same-origin"}
    assert client.post("/", headers=headers).status_code == 200
    assert client.get("/", headers=HERE | {"sec-fetch-site": "none"}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        *(({"host": host}, "loopback") for host in OTHERS),
        ({"origin": "http://evil.example"}, "another"),
        ({"origin": "http://localhost:8511"}, "another"),  # another program on this machine
        ({"origin": "https://localhost:8510"}, "another"),
        ({"origin": "http://127.0.0.1:8510"}, "another"),
        ({"origin": "null"}, "another"),
        ({"sec-fetch-site": "cross-site"}, "another"),
        ({"sec-fetch-site": "same-site"}, "another"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_names_for_this_machine_and_pages_of_other_origins_are_refused(client, method, headers, named):
    response = client.request(method, "/", headers=HERE | headers)
    assert (response.status_code, named in response.text) == (403, True)


def test_every_answer_tells_the_browser_to_load_nothing_from_outside_and_to_keep_nothing(client):
    for response in (client.get("/", headers=HERE), client.get("/", headers={"host": "evil.example"})):
        assert response.headers["content-security-policy"] == POLICY
        assert response.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in POLICY
    assert "unsafe" not in POLICY


SHARED = Shared("http://192.168.1.20:8510", "right")


@pytest.fixture
def other_machine():
    """A browser on another machine, to which the console is shared."""
    return TestClient(Guard(PAGES, SHARED), base_url=SHARED.origin)


@pytest.mark.parametrize("path", ["/", "/?token=wrong", "/?token=", "/?token=%C3%A9", "/?token=right2", "/model"])
def test_who_does_not_have_the_link_is_refused_in_one_line(other_machine, path):
    other_machine.cookies.set("triage_console", "wrong")
    for response in (other_machine.get(path), other_machine.post(path)):
        assert (response.status_code, response.text.count("\n")) == (403, 1)
        assert "paste the link" in response.text
        assert "set-cookie" not in response.headers


def test_the_link_leads_to_the_first_page_without_the_token_which_a_cookie_keeps(other_machine):
    response = other_machine.get(SHARED.link(), follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert response.headers["set-cookie"] == "triage_console=right; HttpOnly; Path=/; SameSite=strict"
    assert other_machine.get("/").text == "answered"
    assert other_machine.post("/", headers={"origin": SHARED.origin}).text == "answered"


def test_over_tls_the_cookie_never_travels_in_plain_text():
    shared = Shared("https://192.168.1.20:8510", "right")
    browser = TestClient(Guard(PAGES, shared), base_url=shared.origin)
    assert "; Secure" in browser.get(shared.link(), follow_redirects=False).headers["set-cookie"]
    assert browser.post("/", headers={"origin": shared.origin}).text == "answered"


def test_the_link_leads_to_no_other_host(other_machine):
    response = other_machine.get(f"{SHARED.origin}//evil.example/?token=right", follow_redirects=False)
    assert response.headers["location"] == "/evil.example/"


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "192.168.1.20"},
        {"host": "192.168.1.20:8511"},
        {"host": "evil.example:8510"},
        {"host": "localhost:8510"},
        {"origin": "http://evil.example"},
        {"origin": "https://192.168.1.20:8510"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_with_the_link_too_only_pages_of_the_shared_host_talk_to_it(other_machine, headers):
    assert other_machine.get(SHARED.link()).text == "answered"
    response = other_machine.get("/", headers=headers)
    assert (response.status_code, "refused" in response.text) == (403, True)
    assert "set-cookie" not in other_machine.get(SHARED.link(), headers=headers, follow_redirects=False).headers

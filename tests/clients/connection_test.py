"""Reaching a server: TLS, token, proxy, retries."""

import asyncio

import grpc
import pytest

from triage_client import (
    AsyncTriageClient,
    InternalError,
    TriageClient,
    UnavailableError,
    evidence_state,
    tls_credentials,
)
from triage_client.connection import MAX_ATTEMPTS, is_loopback

STATE = evidence_state(["fever"])
SECONDS = 30.0


def ask(address, **options):
    with TriageClient(address, timeout_seconds=SECONDS, **options) as client:
        return client.triage(STATE).model_version


def ask_async(address, **options):
    async def run():
        async with AsyncTriageClient(address, timeout_seconds=SECONDS, **options) as client:
            return (await client.triage(STATE)).model_version

    return asyncio.run(run())


BOTH = pytest.mark.parametrize("call", [ask, ask_async])


def credentials(certificates, root="ca.pem", name="client"):
    pair = {"certificate": certificates / f"{name}.pem", "private_key": certificates / f"{name}.key"}
    return tls_credentials(certificates / root, **(pair if name else {}))


@BOTH
def test_tls_with_a_client_certificate_carries_the_token(call, encrypted, certificates):
    service, address = encrypted
    assert call(address, credentials=credentials(certificates), token="t0k.en=") == "scripted"
    assert service.tokens == ["Bearer t0k.en="]


@pytest.mark.parametrize(
    ("root", "name"), [("other.pem", "client"), ("ca.pem", None), ("ca.pem", "other"), (None, None)]
)
def test_peers_without_a_trusted_certificate_are_refused(root, name, encrypted, certificates):
    service, address = encrypted
    chosen = credentials(certificates, root, name) if root else None  # None speaks plain text
    with pytest.raises(UnavailableError):
        ask(address, credentials=chosen)
    assert not service.calls


@BOTH
def test_a_token_goes_to_this_machine_in_plain_text(call, scripted):
    service, address = scripted
    call(address, token="abc")
    call(address)
    assert service.tokens == ["Bearer abc", None]


def test_a_token_goes_with_every_call(scripted):
    service, address = scripted
    with TriageClient(address, timeout_seconds=SECONDS, token="abc") as client:
        client.batch_triage([STATE])
        client.model_info()
        client.vocabulary()
        with client.interview() as interview:
            interview.present("fever")

    async def run():
        client = AsyncTriageClient(address, timeout_seconds=SECONDS, token="abc")
        async with client, client.interview() as interview:
            await interview.present("fever")

    asyncio.run(run())
    assert service.calls == {"BatchTriage": 1, "GetModelInfo": 1, "GetVocabulary": 1, "Interview": 2}
    assert service.tokens == ["Bearer abc"] * 5


@pytest.mark.parametrize("client", [TriageClient, AsyncTriageClient])
def test_a_token_goes_to_no_other_host_in_plain_text(client):
    with pytest.raises(ValueError, match=r"token: triage\.example:8500 is another host and the connection is not encr"):
        client("triage.example:8500", token="abc")


def test_a_token_goes_to_another_host_in_plain_text_on_request(scripted):
    service, address = scripted
    # This machine too, by an address that does not count as loopback.
    elsewhere = address.replace("127.0.0.1", "0.0.0.0")  # noqa: S104 (nothing is bound)
    assert not is_loopback(elsewhere)
    with TriageClient(elsewhere, timeout_seconds=SECONDS, token="abc", insecure=True) as client:
        client.triage(STATE)
    assert service.tokens == ["Bearer abc"]


def test_no_proxy_gets_a_token_in_plain_text():
    with pytest.raises(ValueError, match="an HTTP proxy could read it"):
        TriageClient("localhost:8500", token="abc", http_proxy=True)


def test_what_cannot_be_a_token_is_refused_and_not_shown():
    with pytest.raises(ValueError, match="token: expected letters, digits") as error:
        TriageClient("localhost:8500", token="secret\n")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("localhost:8500", True),
        ("LOCALHOST", True),
        ("127.9.9.9:1", True),
        ("[::1]:8500", True),
        ("dns:///localhost:8500", True),
        ("ipv4:127.0.0.1:8500", True),
        ("unix:/run/triage.sock", True),
        ("10.0.0.1:8500", False),
        ("0.0.0.0:8500", False),
        ("[2001:db8::1]:8500", False),
        ("127.0.0.1.example:8500", False),
        ("localhost.example:8500", False),
        ("localhost@triage.example:8500", False),
        ("dns://10.0.0.1/localhost:8500", False),
        ("ipv4:127.0.0.1:8500,10.0.0.1:8500", False),
    ],
)
def test_only_this_machine_is_loopback(server, expected):
    assert is_loopback(server) is expected


@pytest.mark.parametrize("wrong", [0, -1, 86401, float("nan"), float("inf")])
def test_a_client_without_a_deadline_is_refused(wrong):
    with pytest.raises(ValueError, match="timeout_seconds: expected a number of seconds above 0 and at most 86400"):
        TriageClient("localhost:8500", timeout_seconds=wrong)


@pytest.mark.parametrize("wrong", ["", "http://localhost:8500", "https://localhost"])
def test_what_is_not_an_address_is_refused(wrong):
    with pytest.raises(ValueError, match="server: expected HOST:PORT"):
        TriageClient(wrong)


def test_a_file_that_is_not_a_certificate_is_named(certificates):
    with pytest.raises(ValueError, match=r"ca\.key: expected a PEM file with a CERTIFICATE"):
        tls_credentials(certificates / "ca.key")


def test_a_certificate_wants_its_key(certificates):
    with pytest.raises(ValueError, match="certificate and private_key: expected both or neither"):
        tls_credentials(certificate=certificates / "client.pem")


@BOTH
def test_the_environments_proxy_is_used_only_on_request(call, scripted, monkeypatch):
    _, address = scripted
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # no server listens there
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("no_grpc_proxy", raising=False)
    assert call(address) == "scripted"
    with pytest.raises(UnavailableError):
        call(address, http_proxy=True)


@BOTH
def test_a_call_is_tried_again_while_the_server_is_unavailable(call, scripted):
    service, address = scripted
    service.failures = [grpc.StatusCode.UNAVAILABLE] * (MAX_ATTEMPTS - 1)
    assert call(address) == "scripted"
    assert service.calls["Triage"] == MAX_ATTEMPTS


@BOTH
def test_attempts_are_limited(call, scripted):
    service, address = scripted
    service.failures = [grpc.StatusCode.UNAVAILABLE] * 10
    with pytest.raises(UnavailableError, match="as scripted"):
        call(address)
    assert service.calls["Triage"] == MAX_ATTEMPTS


@BOTH
def test_another_failure_is_not_tried_again(call, scripted):
    service, address = scripted
    service.failures = [grpc.StatusCode.INTERNAL]
    with pytest.raises(InternalError, match="as scripted"):
        call(address)
    assert service.calls["Triage"] == 1


def test_every_call_but_the_interview_is_tried_again(scripted):
    service, address = scripted
    with TriageClient(address, timeout_seconds=SECONDS) as client:
        for call in (lambda: client.batch_triage([STATE]), client.model_info, client.vocabulary):
            service.failures = [grpc.StatusCode.UNAVAILABLE]
            call()
        service.failures = [grpc.StatusCode.UNAVAILABLE]
        with client.interview() as interview, pytest.raises(UnavailableError):
            interview.present("fever")
    assert service.calls == {"BatchTriage": 2, "GetModelInfo": 2, "GetVocabulary": 2, "Interview": 1}


def test_a_server_that_fails_more_than_it_answers_gets_no_second_attempts(scripted):
    service, address = scripted
    service.failures = [grpc.StatusCode.UNAVAILABLE] * 100
    with TriageClient(address, timeout_seconds=SECONDS) as client:
        attempts = []
        for _ in range(4):
            before = service.calls["Triage"]
            with pytest.raises(UnavailableError):
                client.triage(STATE)
            attempts.append(service.calls["Triage"] - before)
    # Each failure takes one of 20 tokens, and only above 10 is a call tried again: 20 - 4 - 4 - 2 = 10.
    assert attempts == [4, 4, 2, 1]


@BOTH
@pytest.mark.parametrize("token", [None, "abc"])
def test_each_call_carries_the_language_of_its_client(call, token, scripted):
    service, address = scripted
    assert call(address, language="de-CH, en;q=0.5", token=token) == call(address) == "scripted"
    assert service.languages == ["de-CH, en;q=0.5", None]


def test_what_is_no_language_is_refused():
    with pytest.raises(ValueError, match=r"language: expected a tag such as de, or several; got 'de\\n'"):
        TriageClient("127.0.0.1:1", language="de\n")

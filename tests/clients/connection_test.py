"""Reaching a server: TLS, where a token goes, proxy."""

import pytest

from triage_client import (
    AsyncTriageClient,
    TriageClient,
    UnavailableError,
    evidence_state,
    tls_credentials,
)
from triage_client.connection import is_loopback

STATE = evidence_state(["fever"])
SECONDS = 30.0


def credentials(certificates, root="ca.pem", name="client"):
    pair = {"certificate": certificates / f"{name}.pem", "private_key": certificates / f"{name}.key"}
    return tls_credentials(certificates / root, **(pair if name else {}))


def test_tls_with_a_client_certificate_carries_the_token(connect, encrypted, certificates):
    service, address = encrypted
    client = connect(address, credentials=credentials(certificates), token="t0k.en=")
    assert client.triage(STATE).model_version == "scripted"
    assert service.tokens == ["Bearer t0k.en="]


@pytest.mark.parametrize(
    ("root", "name"), [("other_ca.pem", "client"), ("ca.pem", None), ("ca.pem", "stranger"), (None, None)]
)
def test_peers_without_a_trusted_certificate_are_refused(connect, root, name, encrypted, certificates):
    service, address = encrypted
    chosen = credentials(certificates, root, name) if root else None  # None speaks plain text
    with pytest.raises(UnavailableError):
        connect(address, credentials=chosen).triage(STATE)
    assert not service.calls


@pytest.mark.parametrize("client", [TriageClient, AsyncTriageClient])
def test_a_token_goes_to_no_other_host_in_plain_text(client):
    with pytest.raises(ValueError, match=r"token: triage\.example:8500"):
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
    with pytest.raises(ValueError, match="token: ") as error:
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
    with pytest.raises(ValueError, match="timeout_seconds"):
        TriageClient("localhost:8500", timeout_seconds=wrong)


@pytest.mark.parametrize("wrong", ["", "http://localhost:8500", "https://localhost"])
def test_what_is_not_an_address_is_refused(wrong):
    with pytest.raises(ValueError, match="server: "):
        TriageClient(wrong)


def test_a_file_that_is_not_a_certificate_is_named(certificates):
    with pytest.raises(ValueError, match=r"ca\.key: expected a PEM file with a CERTIFICATE"):
        tls_credentials(certificates / "ca.key")


def test_a_certificate_wants_its_key(certificates):
    with pytest.raises(ValueError, match="certificate and private_key"):
        tls_credentials(certificate=certificates / "client.pem")


def test_the_environments_proxy_is_used_only_on_request(connect, scripted, monkeypatch):
    _, address = scripted
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # no server listens there
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("no_grpc_proxy", raising=False)
    assert connect(address).triage(STATE).model_version == "scripted"
    with pytest.raises(UnavailableError):
        connect(address, http_proxy=True).triage(STATE)

"""Reaching a server: TLS, where a token goes, proxy."""

from math import inf, nan

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
@pytest.mark.parametrize(
    ("server", "options", "named"),
    [
        ("triage.example:8500", {"token": "abc"}, r"token: triage\.example:8500"),  # another host
        ("localhost:8500", {"token": "abc", "http_proxy": True}, "token: .*HTTP proxy"),
        ("localhost:8500", {"token": "secret\n"}, "token: (?!.*secret)"),
        *(("localhost:8500", {"timeout_seconds": wrong}, "timeout_seconds") for wrong in (0, -1, 86401, nan, inf)),
        *((wrong, {}, "server: ") for wrong in ("", "http://localhost:8500", "https://localhost")),
    ],
)
def test_a_refused_client_names_the_argument_and_no_token(client, server, options, named):
    with pytest.raises(ValueError, match=named):
        client(server, **options)


def test_a_token_goes_to_another_host_in_plain_text_on_request(scripted):
    service, address = scripted
    # This machine too, by an address that does not count as loopback.
    elsewhere = address.replace("127.0.0.1", "0.0.0.0")  # noqa: S104 (nothing is bound)
    assert not is_loopback(elsewhere)
    with TriageClient(elsewhere, timeout_seconds=SECONDS, token="abc", insecure=True) as client:
        client.triage(STATE)
    assert service.tokens == ["Bearer abc"]


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


@pytest.mark.parametrize(
    ("given", "named"),
    [({"root_certificates": "ca.key"}, r"ca\.key: .*CERTIFICATE"), ({"certificate": "client.pem"}, "private_key")],
)
def test_files_that_are_no_credentials_are_named(certificates, given, named):
    with pytest.raises(ValueError, match=named):
        tls_credentials(**{argument: certificates / name for argument, name in given.items()})


def test_the_environments_proxy_is_used_only_on_request(connect, scripted, monkeypatch):
    _, address = scripted
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # no server listens there
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("no_grpc_proxy", raising=False)
    assert connect(address).triage(STATE).model_version == "scripted"
    with pytest.raises(UnavailableError):
        connect(address, http_proxy=True).triage(STATE)

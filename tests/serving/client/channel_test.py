"""`triage ask` over TLS, and its message without a connection."""

import re

import pytest

import triage_cli


@pytest.fixture
def ask(capsys):
    """Runs `triage ask` and returns its exit code and standard error."""

    def run(server, *options):
        code = triage_cli.main(["ask", "--server", server.address, "--present", "fever", "--timeout", "30", *options])
        return code, capsys.readouterr().err

    return run


def test_a_server_that_wants_tls_and_a_certificate_is_asked_with_both(serving, tls, certificates, ask):
    own = ["--tls-client-certificate", certificates.client, "--tls-client-key", certificates.key(certificates.client)]
    with serving(tls_client_ca=certificates.ca, **tls) as server:
        assert ask(server, "--tls-ca", certificates.ca, *own) == (0, "")
        code, error = ask(server, "--tls-ca", certificates.ca)
    assert code == 1
    assert error.startswith(f"triage ask: error: {server.address} closed the connection")


def test_with_tls_alone_the_roots_of_the_system_are_trusted(serving, tls, certificates, ask, monkeypatch):
    with serving(**tls) as server:
        monkeypatch.setenv("SSL_CERT_FILE", certificates.ca)
        assert ask(server, "--tls") == (0, "")
        monkeypatch.setenv("SSL_CERT_FILE", certificates.other_ca)
        code, error = ask(server, "--tls")
    assert code == 1
    assert error.startswith(f"triage ask: error: {server.address}: its certificate is not trusted")
    assert "--tls-ca" in error


def test_a_server_under_another_name_than_its_certificate_is_reported(serving, tls, certificates, ask):
    with serving(host="127.0.0.2", **tls) as server:
        code, error = ask(server, "--tls-ca", certificates.ca)
    assert code == 1
    assert error.startswith(f"triage ask: error: {server.address}: its certificate ")
    assert "another name" in error


def test_a_server_without_tls_is_distinguished_from_an_untrusted_one(server, certificates, ask):
    code, error = ask(server, "--tls-ca", certificates.ca)
    assert code == 1
    assert error.startswith(f"triage ask: error: {server.address} does not use TLS")


def test_a_certificate_of_the_client_is_no_use_in_plain_text(server, ask):
    code, error = ask(server, "--tls-client-certificate", "a.pem", "--tls-client-key", "a.key")
    assert code == 2
    assert error.startswith("triage ask: error: --tls-client-certificate and --tls-client-key ")


def test_a_token_is_shown_from_a_file_and_missed_where_the_server_wants_one(serving, tmp_path, ask):
    tokens, mine, empty = tmp_path / "tokens", tmp_path / "mine", tmp_path / "empty"
    tokens.write_text("one\ntwo\n")
    mine.write_text("two\n")
    empty.touch()
    with serving(tokens=str(tokens)) as server:
        assert ask(server, "--token-file", str(mine)) == (0, "")
        for options, expected, named in (
            ((), 1, f"{server.address}: .*--token-file"),
            (("--token-file", str(tokens)), 2, f"{tokens}: .*found 2"),
            (("--token-file", str(empty)), 2, f"{empty}: "),
        ):
            code, error = ask(server, *options)
            assert code == expected
            assert re.fullmatch(f"triage ask: error: {named}.*\n", error)

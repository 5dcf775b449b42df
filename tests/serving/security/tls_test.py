"""TLS and mutual TLS against a real server, and errors for faulty files."""

import logging
import pathlib
import shutil
import ssl

import grpc
import pytest
from cryptography.hazmat.primitives import serialization

from schemas.errors import InputError
from serving.security.tls import ServerCertificate, channel_credentials
from triage_client import TriageClient, TriageError, evidence_state


def code_of(server, credentials):
    """Returns the status that a call ends with, None where it is answered."""
    with TriageClient(server.address, timeout_seconds=30.0, credentials=credentials) as client:
        try:
            assert client.triage(evidence_state(["fever"])).model_version == "3"
        except TriageError as error:
            return error.status
    return None


def test_a_server_with_a_certificate_answers_those_who_trust_its_root_and_no_plain_text(serving, tls, certificates):
    with serving(**tls) as server:
        assert code_of(server, channel_credentials(certificates.ca)) is None
        assert code_of(server, channel_credentials(certificates.other_ca)) is grpc.StatusCode.UNAVAILABLE
        assert code_of(server, None) is grpc.StatusCode.UNAVAILABLE


def test_with_a_client_ca_only_clients_whose_certificate_it_signed_are_answered(serving, tls, certificates):
    own = (certificates.client, certificates.key(certificates.client))
    other = (certificates.stranger, certificates.key(certificates.stranger))
    with serving(tls_client_ca=certificates.ca, **tls) as server:
        assert code_of(server, channel_credentials(certificates.ca, *own)) is None
        assert code_of(server, channel_credentials(certificates.ca, *other)) is grpc.StatusCode.UNAVAILABLE
        assert code_of(server, channel_credentials(certificates.ca)) is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_without_a_ca_the_roots_of_the_system_are_trusted(serving, tls, certificates, monkeypatch, tmp_path, variable):
    shutil.copy(certificates.ca, tmp_path / "12345678.0")  # OpenSSL names roots by their hash
    values = {"SSL_CERT_FILE": certificates.ca, "SSL_CERT_DIR": str(tmp_path)}
    for name in values:
        monkeypatch.setenv(name, values[name] if name == variable else str(tmp_path / "missing"))
    with serving(**tls) as server:
        assert code_of(server, channel_credentials()) is None


def test_files_that_are_not_what_they_should_be_are_reported_with_their_option(certificates, tmp_path):
    empty, missing, locked = (tmp_path / name for name in ("empty.pem", "missing.pem", "locked.key"))
    empty.touch()
    private = serialization.load_pem_private_key(pathlib.Path(certificates.key(certificates.server)).read_bytes(), None)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked.write_bytes(private.private_bytes(*form, serialization.BestAvailableEncryption(b"secret")))
    good, key = certificates.server, certificates.key(certificates.server)
    other_key = certificates.key(certificates.client)
    for arguments, complaint in (
        ((str(missing), key, ""), f"--tls-certificate {missing}: .*No such file"),
        ((str(tmp_path), key, ""), f"--tls-certificate {tmp_path}: .*directory"),
        ((str(empty), key, ""), f"--tls-certificate {empty}: .*PEM"),
        ((good, str(missing), ""), f"--tls-key {missing}: .*No such file"),
        ((good, good, ""), f"--tls-key {good}: .*{good}.*PEM"),
        ((good, other_key, ""), f"--tls-key {other_key}: .*--tls-certificate {good}"),
        ((good, str(locked), ""), f"--tls-key {locked}: .*{good}.*password"),  # and is not asked for it
        ((good, key, str(missing)), f"--tls-client-ca {missing}: .*No such file"),
        ((good, key, key), f"--tls-client-ca {key}: .*PEM"),
    ):
        with pytest.raises(InputError, match=f"^{complaint}"):
            ServerCertificate(*arguments)


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (("missing", "", ""), "--tls-ca missing: .*No such file"),
        (("", "client", ""), "--tls-client-certificate and --tls-client-key"),
        (("", "", "client"), "--tls-client-certificate and --tls-client-key"),
    ],
)
def test_faulty_settings_of_a_client_are_reported_with_their_option(names, complaint, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"^{complaint}"):
        channel_credentials(*names)


def shown(port):
    """The certificate that a port shows, without what PEM leaves open."""
    return "".join(ssl.get_server_certificate(("127.0.0.1", port), timeout=30).split())


def of(certificate):
    return "".join(pathlib.Path(certificate).read_text().split())


def test_a_renewed_certificate_is_shown_at_every_port_without_a_restart(serving, certificates, tmp_path, caplog):
    files = {"tls_certificate": str(tmp_path / "live.pem"), "tls_key": str(tmp_path / "live.key")}

    def renew(certificate):
        shutil.copy(certificates.key(certificate), files["tls_key"])
        shutil.copy(certificate, files["tls_certificate"])

    renew(certificates.server)
    with serving(http_port=0, metrics_port=0, metrics_host="0.0.0.0", **files) as server:  # noqa: S104
        ports = (server.port, server.http.port, int(server.metrics_port.url.rpartition(":")[2].partition("/")[0]))
        assert [shown(port) for port in ports] == [of(certificates.server)] * 3
        renew(certificates.client)
        with caplog.at_level(logging.INFO):
            assert [shown(port) for port in ports] == [of(certificates.client)] * 3
        assert sum("live.pem: read again" in line for line in caplog.messages) == 1
        assert code_of(server, channel_credentials(certificates.ca)) is None
        shutil.copy(certificates.server, files["tls_certificate"])  # whose key is still to come
        assert [shown(port) for port in ports] == [of(certificates.client)] * 3
        (line,) = [line for line in caplog.messages if "does not belong to the certificate" in line]
        assert str(tmp_path / "live.key") in line
        renew(certificates.server)
        assert [shown(port) for port in ports] == [of(certificates.server)] * 3

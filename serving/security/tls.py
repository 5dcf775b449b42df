"""Certificates and keys from files, for both ends of a TLS connection. Needs no TensorFlow."""

import pathlib
import ssl
from typing import NamedTuple

import grpc

from schemas.errors import InputError
from serving.security.reread import Reread


class ServerCertificate:
    """A server's certificate and key, from files that may change while the server runs. For use from any thread.

    The files are read again when a client connects after a change. While they are faulty, the earlier certificate
    stays, and the log says so once. The clients' roots are read once.

    Args:
        certificate: PEM file of the server's certificate, followed by any intermediate certificates.
        key: PEM file of the certificate's private key.
        client_ca: PEM file of the root certificates of clients; "" requires no client certificate.

    Raises:
        InputError: a file is missing or malformed, or the key belongs to another certificate.
    """

    def __init__(self, certificate: str, key: str, client_ca: str = ""):
        self._files = (certificate, key)
        self._roots = _certificates("--tls-client-ca", client_ca) if client_ca else None
        self._loaded = Reread(self._files, self._load, "the earlier certificate stays")
        self._given = self._loaded.current()  # what gRPC has

    def credentials(self) -> grpc.ServerCredentials:
        """Returns the credentials for a gRPC server."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(), self._changed_configuration, require_client_authentication=self._roots is not None
        )

    def context(self) -> ssl.SSLContext:
        """Returns a context for other servers than gRPC's, which gives each connection the certificate of now."""
        context = self._load().context
        context.sni_callback = self.choose
        return context

    def choose(self, connection: "ssl.SSLObject | ssl.SSLSocket", name: str | None, context: ssl.SSLContext) -> None:
        """Gives a new connection the certificate of now: an `sni_callback` of another context."""
        connection.context = self._loaded.current().context

    def _changed_configuration(self) -> grpc.ServerCertificateConfiguration | None:
        loaded = self._loaded.current()
        if self._given is loaded:
            return None
        self._given = loaded
        return self._configuration()

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([self._given.pair], root_certificates=self._roots)

    def _load(self) -> "_Loaded":
        certificate, key = self._files
        pair = _pair("--tls-certificate", certificate, "--tls-key", key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password="")
        if self._roots is not None:  # a connection looks for the roots of clients in the context that it is given
            context.load_verify_locations(cadata=self._roots.decode("ascii", errors="ignore"))
            context.verify_mode = ssl.CERT_REQUIRED
        return _Loaded(pair, context)


class _Loaded(NamedTuple):
    pair: tuple[bytes, bytes]  # private key and certificates, for gRPC
    context: ssl.SSLContext  # the same for other servers


def channel_credentials(ca: str = "", certificate: str = "", key: str = "") -> grpc.ChannelCredentials:
    """Returns the credentials of a client.

    Args:
        ca: PEM file of the only root certificates to trust; "" trusts those of this system.
        certificate: PEM file of the client's own certificate, "" for none.
        key: PEM file of that certificate's private key.

    Raises:
        InputError: a file is missing or malformed, or the key belongs to another certificate.
    """
    roots = _certificates("--tls-ca", ca) if ca else _system_roots()
    if bool(certificate) != bool(key):
        raise InputError("--tls-client-certificate and --tls-client-key need each other: give both or neither")
    if not certificate:
        return grpc.ssl_channel_credentials(roots)
    private_key, chain = _pair("--tls-client-certificate", certificate, "--tls-client-key", key)
    return grpc.ssl_channel_credentials(roots, private_key, chain)


def _pair(certificate_option: str, certificate: str, key_option: str, key: str) -> tuple[bytes, bytes]:
    """Returns the contents of a key and its certificate, after checks whose failure gRPC would not explain."""
    chain = _certificates(certificate_option, certificate)
    private_key = _read(key_option, key)
    try:
        # With password=None OpenSSL would ask for one on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise InputError(
                f"{key_option} {key}: does not belong to the certificate in {certificate_option} {certificate}"
            ) from error
        raise InputError(
            f"{key_option} {key}: expected the private key of {certificate}, in PEM format and without a password "
            f"({error.reason or 'not readable'})"
        ) from error
    return private_key, chain


def _certificates(option: str, path: str) -> bytes:
    """Returns the contents of a file with at least one certificate."""
    content = _read(option, path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise InputError(
            f"{option} {path}: expected certificates in PEM format (-----BEGIN CERTIFICATE-----)"
        ) from error
    return content


def _read(option: str, path: str) -> bytes:
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{option} {path}: cannot read: {error.strerror or error}") from error


def _system_roots() -> bytes | None:
    """Returns the root certificates that OpenSSL trusts here, or None for those of gRPC."""
    paths = ssl.get_default_verify_paths()  # respects SSL_CERT_FILE and SSL_CERT_DIR
    if paths.cafile:
        return _certificates("SSL_CERT_FILE", paths.cafile)
    if paths.capath:
        return b"\n".join(path.read_bytes() for path in sorted(pathlib.Path(paths.capath).glob("*.0"))) or None
    return None

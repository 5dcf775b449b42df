"""Certificates of two authorities, for servers and clients of tests."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

SIGNED = {"ca": None, "other_ca": None, "server": "ca", "client": "ca", "stranger": "other_ca"}
"""The names of the certificates, and who signed them; authorities sign themselves."""
NAMES = ("localhost", "www.googleapis.com", "storage.googleapis.com")


def write_certificates(folder):
    """Writes each of `SIGNED` as NAME.pem beside its NAME.key; they are for 127.0.0.1 and `NAMES`."""
    issuers = {}
    for name, signed_by in SIGNED.items():
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        issuers[name] = (subject, key)
        issuer, issuer_key = issuers[signed_by or name]
        names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), *map(x509.DNSName, NAMES)]
        certificate = (
            x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(datetime.datetime(2000, 1, 1))
            .not_valid_after(datetime.datetime(2100, 1, 1))
            .add_extension(x509.BasicConstraints(ca=signed_by is None, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(issuer_key, hashes.SHA256())
        )
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        (folder / f"{name}.key").write_bytes(key.private_bytes(*form))
    return folder

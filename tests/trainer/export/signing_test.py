"""The signature of a version: made with a key in PEM format, and what common programs can check."""

import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from schemas.errors import InputError
from trainer.export.signing import read_key, sign

PASSWORD = serialization.BestAvailableEncryption(b"secret")


def pem(key, encryption=serialization.NoEncryption()):  # noqa: B008
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


@pytest.fixture(scope="module")
def key():
    return ed25519.Ed25519PrivateKey.generate()


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("openssl") and shutil.which("sha256sum")), reason="needs openssl and sha256sum")
def test_sha256sum_and_openssl_verify_what_was_signed(key, tmp_path):
    version = tmp_path / "3"
    for name in ("saved_model.pb", "variables/variables.index", "assets.extra/rules.toml"):
        (version / name).parent.mkdir(parents=True, exist_ok=True)
        (version / name).write_text(name)
    (tmp_path / "private.pem").write_bytes(pem(key))
    sign(version, read_key(tmp_path / "private.pem"))
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    (tmp_path / "public.pem").write_bytes(key.public_key().public_bytes(*form))
    commands = [
        "sha256sum --strict --check SHA256SUMS",
        "openssl pkeyutl -verify -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig -pubin -inkey ../public.pem",
    ]
    for command in commands:
        assert subprocess.run(command.split(), cwd=version, capture_output=True, timeout=60).returncode == 0, command
    listed = [line.split("  ")[1] for line in (version / "SHA256SUMS").read_text().splitlines()]
    assert listed == ["assets.extra/rules.toml", "saved_model.pb", "variables/variables.index"]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"no key", "private Ed25519"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "private Ed25519"),
        (pem(ed25519.Ed25519PrivateKey.generate(), PASSWORD), "private Ed25519"),
        (None, "No such file"),
    ],
    ids=["text", "another kind of key", "a password", "no file"],
)
def test_other_keys_are_refused(content, named, tmp_path):
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    with pytest.raises(InputError, match=f"^--sign {tmp_path}/key: .*{named}"):
        read_key(tmp_path / "key")

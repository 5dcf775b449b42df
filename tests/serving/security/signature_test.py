"""A version is loaded only if each of its bytes was signed with the one key."""

import json
import shutil

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from schemas.errors import InputError
from serving.security.signature import VersionKey, verified
from trainer.export.signing import sign

FILES = ("saved_model.pb", "variables/variables.index", "assets.extra/state.tflite", "manifest.json", "BLESSED")


def public(key):
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture(scope="module")
def private_key():
    return ed25519.Ed25519PrivateKey.generate()


@pytest.fixture(scope="module")
def key(private_key, tmp_path_factory):
    path = tmp_path_factory.mktemp("key") / "public.pem"
    path.write_bytes(public(private_key))
    return VersionKey.read(path)


@pytest.fixture
def version(private_key, tmp_path):
    """A signed version, whose model is none."""
    folder = tmp_path / "models" / "3"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"the content of {name}")
    manifest = {
        "format_version": 1,
        "model_version": "3",
        "vocabulary_fingerprint": "sha256:vocabulary",
        "data_fingerprint": "sha256:data",
        "evidence_count": 3,
        "max_questions": 10,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "BLESSED").write_bytes(b"")
    sign(folder, private_key)
    return folder


def refusal(version, key):
    with pytest.raises(InputError) as refused, verified(version, key):
        pytest.fail("was not refused")
    [line] = str(refused.value).splitlines()
    return line


def test_the_verified_copy_is_what_was_signed_and_is_gone_afterwards(version, key):
    before = {name: (version / name).read_bytes() for name in FILES}
    with verified(version, key) as copy:
        shutil.rmtree(version)  # nothing that happens there can change what is loaded
        assert copy.name == "3"
        assert copy.parent.stat().st_mode & 0o077 == 0
        copied = {path.relative_to(copy).as_posix(): path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert copied == before
    assert not copy.exists()


def alter(path):
    content = bytearray(path.read_bytes() or b"\0")
    content[-1] ^= 1
    path.write_bytes(content)


def move_elsewhere(folder):
    folder.symlink_to(shutil.move(folder, folder.parents[2] / "elsewhere"))


@pytest.mark.parametrize(
    ("change", "place", "named"),
    [
        *((lambda version, name=name: alter(version / name), f"/{name}", "not the file") for name in FILES),
        (lambda version: (version / FILES[2]).unlink(), f"/{FILES[2]}", "missing"),
        (lambda version: (version / "variables/new").touch(), "/variables/new", "not among"),
        (lambda version: move_elsewhere(version / "variables"), "/variables/variables.index", "missing"),
        *(
            (lambda version, name=name: (version / name).unlink(), "", "not signed")
            for name in ("SHA256SUMS", "SHA256SUMS.sig")
        ),
        (lambda version: alter(version / "SHA256SUMS"), "/SHA256SUMS", "public.pem"),
        (lambda version: sign(version, ed25519.Ed25519PrivateKey.generate()), "/SHA256SUMS", "public.pem"),
        (lambda version: (version / "SHA256SUMS.sig").write_bytes(b"short"), "/SHA256SUMS", "public.pem"),
    ],
)
def test_what_is_not_as_it_was_signed_is_refused_by_its_place(version, key, change, place, named):
    change(version)
    refused = refusal(version, key)
    assert refused.startswith(f"{version}{place}: ")
    assert named in refused


def test_an_old_version_does_not_come_back_under_a_higher_number(version, key):
    version = version.rename(version.with_name("9"))
    assert refusal(version, key).startswith(f"{version}: was signed as version 3")


def test_an_error_about_the_copy_names_the_version(version, key):
    with pytest.raises(InputError) as error, verified(version, key) as copy:
        raise InputError(f"{copy}: cannot load the SavedModel")
    assert str(error.value) == f"{version}: cannot load the SavedModel"


@pytest.mark.parametrize(
    "content",
    [b"no key", public(ec.generate_private_key(ec.SECP256R1()))],
    ids=["text", "another kind of key"],
)
def test_a_file_without_a_public_ed25519_key_is_refused(content, tmp_path):
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(InputError, match=r"^--require-signature .*/key: .*public Ed25519"):
        VersionKey.read(tmp_path / "key")
